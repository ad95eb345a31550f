use super::{Translated, translate};

#[test]
fn one_url_serves_both_clients() {
    let cases = [
        ("postgres://u@h/db", "postgres://u@h/db", None),
        (
            "postgres://u@h/db?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem",
            "postgres://u@h/db?sslmode=require",
            Some("/etc/ca.pem"),
        ),
        ("postgres://u@h/db?sslrootcert=/ca.pem", "postgres://u@h/db", Some("/ca.pem")),
        (
            "postgres://u@h/db?sslmode=disable&connect_timeout=3",
            "postgres://u@h/db?sslmode=disable&connect_timeout=3",
            None,
        ),
    ];
    for (given, url, root) in cases {
        let expected =
            Translated { url: url.to_owned(), root_certificates: root.map(str::to_owned) };
        assert_eq!(translate(given), expected, "{given}");
    }
}
