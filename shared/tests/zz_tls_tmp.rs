//! temp
use std::time::Duration;
#[tokio::test]
async fn tls() {
    shared::runtime::tls::install_provider();
    for q in ["sslmode=disable", "sslmode=prefer", "sslmode=require", "sslmode=verify-full", "sslmode=verify-full&sslrootcert=/tmp/pgtls-ca.pem", "sslmode=require&sslrootcert=/tmp/pgtls-ca.pem", ""] {
        let c = shared::store::pool::Config { url: format!("postgres://postgres@localhost:15499/postgres?{q}").into(), max_connections: 2, application_name: "x".into(), acquire_timeout: Duration::from_secs(3) };
        let hot = match shared::store::pool::hot(&c) { Ok(p) => match p.get().await { Ok(c) => format!("{:?}", c.query_one("select ssl from pg_stat_ssl where pid=pg_backend_pid()", &[]).await.map(|r| r.get::<_, bool>(0))), Err(e) => format!("ERR {e:?}") }, Err(e) => format!("ERR {e:#}") };
        let rows = shared::store::pool::rows(&c).unwrap();
        let r: Result<bool, _> = sqlx::query_scalar("select ssl from pg_stat_ssl where pid=pg_backend_pid()").fetch_one(&rows).await;
        println!("{q}: hot {} | rows {r:?}", hot.chars().take(160).collect::<String>());
    }
}
