//! Uploads: limits to the byte, names, owners.
use contract::error_code::ErrorCode;
use contract::job::Locale;
use contract::limits::{FILE_BYTES, FILES_PER_MESSAGE};
use futures_util::stream;
use gateway::auth::Caller;
use gateway::files::resolve_files;
use reqwest::Body;
use serde_json::{Value, json};
use tests::token;

use crate::stand::{Answer, Stand, read};

const TOO_LARGE: &str = "File size exceeded maximum allowed size of 10485760 bytes.";

#[tokio::test]
async fn a_file_of_exactly_the_limit_passes_and_one_byte_more_does_not() {
    let stand = Stand::start().await;
    let limit = usize::try_from(FILE_BYTES).unwrap();
    let pdf = |bytes: usize| [b"%PDF-1.7\n".as_slice(), &vec![7; bytes - 9]].concat();
    let whole = form(&[("files", Some("a.pdf"), &pdf(limit))]);
    let (status, paths) = upload(&stand, "anna", whole.clone().into()).await;
    assert_eq!(status, 200, "{paths}");
    let (status, content) = download(&stand, "anna", paths[0].as_str().unwrap()).await;
    assert_eq!((status, content.len()), (200, limit));
    assert_eq!(upload(&stand, "anna", chunked(whole)).await.0, 200);

    let large = form(&[("files", Some("a.pdf"), &pdf(limit + 1))]);
    assert_eq!(upload(&stand, "anna", large.clone().into()).await, (413, json!(TOO_LARGE)));
    assert_eq!(upload(&stand, "anna", chunked(large)).await, (413, json!(TOO_LARGE)));
    // The limit is per file.
    let half = pdf(limit / 2 + 1);
    let two = form(&[("files", Some("a.pdf"), &half), ("files", Some("b.pdf"), &half)]);
    let (status, paths) = upload(&stand, "anna", two.into()).await;
    assert_eq!((status, paths.as_array().unwrap().len()), (200, 2));
}

#[tokio::test]
async fn content_must_be_what_the_name_says_and_no_program() {
    let stand = Stand::start().await;
    for (name, content, expected) in [
        ("report.pdf", b"MZ\x90\x00\x03".as_slice(), "a program"),
        ("setup.exe", b"MZ\x90\x00\x03", "a program"),
        ("run", b"#!/bin/sh\nrm -rf /\n", "a script"),
        ("table.xlsx", b"\x89PNG\r\n\x1a\n", "content is PNG"),
        ("photo.png", b"%PDF-1.7\n", "content is PDF"),
        ("page.csv", b"<!doctype html><script>alert(1)</script>", "a web page"),
        ("empty.csv", b"", "is empty"),
    ] {
        let body = form(&[("files", Some(name), content)]);
        let (status, answer) = upload(&stand, "anna", body.into()).await;
        assert_eq!((status, answer["code"].as_str()), (415, Some("FILE_TYPE")), "{name}: {answer}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.contains(expected) && detail.contains("PDF, XLSX"), "{name}: {detail}");
    }
    // What nobody reads is kept for its owner; the worker says that it can't be read.
    let other = form(&[("files", Some("notes.txt"), b"hello"), ("files", Some("x.bin"), &[0; 64])]);
    assert_eq!(upload(&stand, "anna", other.into()).await.0, 200);
}

#[tokio::test]
async fn names_come_back_safe_and_in_order() {
    let stand = Stand::start().await;
    let body = form(&[
        ("other", None, b"ignored"),
        ("files", Some("Отчёт за май.xlsx"), b"PK\x03\x04one"),
        ("files", Some("../../etc/passwd"), b"two"),
        ("files", Some("blob"), b""),
    ]);
    let (status, paths) = upload(&stand, "anna", body.into()).await;
    assert_eq!(status, 200, "{paths}");
    let names: Vec<_> = paths
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap().split_once('/').unwrap().1.to_owned())
        .collect();
    assert_eq!(names, ["file.xlsx", "passwd", "blob"]);
    assert_eq!(download(&stand, "anna", paths[1].as_str().unwrap()).await, (200, b"two".to_vec()));
    assert_eq!(download(&stand, "anna", paths[2].as_str().unwrap()).await, (200, Vec::new()));

    let dots = form(&[("files", Some(".."), b"x")]);
    let refused = (400, json!({ "detail": "Invalid file name: .." }));
    assert_eq!(upload(&stand, "anna", dots.into()).await, refused);
    assert_eq!(upload(&stand, "anna", form(&[]).into()).await, (200, json!([])));
    let cut = form(&[("files", Some("a.csv"), b"abc")])[..100].to_vec();
    assert_eq!(upload(&stand, "anna", cut.into()).await.0, 400);

    let url = format!("{}/gradio_api/upload", stand.base);
    let plain = stand.http.post(&url).bearer_auth(token::user("anna")).json(&json!({}));
    let answer = read(plain.send().await.unwrap()).await;
    assert_eq!(answer, (400, json!({ "detail": "Invalid content type." })));
}

#[tokio::test]
async fn only_the_owner_gets_a_file_back_and_only_to_save_it() {
    let stand = Stand::start().await;
    let body = form(&[("files", Some("страница.html"), b"<script>alert(1)</script>")]);
    let (_, paths) = upload(&stand, "anna", body.into()).await;
    let path = paths[0].as_str().unwrap();
    let url = format!("{}/gradio_api/file={path}", stand.base);
    for head in [false, true] {
        let request = if head { stand.http.head(&url) } else { stand.http.get(&url) };
        let response = request.bearer_auth(token::user("anna")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "application/octet-stream");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("content-length"), "25");
        assert!(header("content-disposition").starts_with("attachment; "));
        assert_eq!(response.bytes().await.unwrap().len(), if head { 0 } else { 25 });
    }
    let (status, refusal) = download(&stand, "boris", path).await;
    let expected = json!({ "detail": format!("File not allowed: {path}.") });
    assert_eq!((status, serde_json::from_slice::<Value>(&refusal).unwrap()), (403, expected));
    let never = "0123456789abcdef0123456789abcdef/a.html";
    for path in
        [never, "etc/passwd", "/etc/passwd", "..%2F..%2Fetc/passwd", "https://example.com/x"]
    {
        assert_eq!(download(&stand, "anna", path).await.0, 403, "{path}");
    }
}

#[tokio::test]
async fn a_message_may_name_its_users_uploads_only() {
    let stand = Stand::start().await;
    let body = form(&[("files", Some("report.csv"), b"a,b")]);
    let (_, paths) = upload(&stand, "anna", body.into()).await;
    let path = paths[0].as_str().unwrap();
    let (anna, boris) = (stand.caller("anna"), stand.caller("boris"));
    let data = json!({ "path": path, "orig_name": "/home/anna/Отчёт.csv", "meta": { "_type": "gradio.FileData" } });

    let found =
        resolve_files(&stand.app, &anna, std::slice::from_ref(&data), Locale::En).await.unwrap();
    let seen =
        (found[0].blob.as_str(), found[0].name.as_str(), found[0].mime.as_str(), found[0].size);
    assert_eq!(seen, (path, "Отчёт.csv", "text/csv", 3));
    let plain =
        resolve_files(&stand.app, &anna, &[json!({ "path": path })], Locale::En).await.unwrap();
    assert_eq!(plain[0].name, "report.csv");

    let refusal = async |caller: &Caller, files: &[Value]| {
        resolve_files(&stand.app, caller, files, Locale::En).await.unwrap_err().code
    };
    assert_eq!(refusal(&boris, std::slice::from_ref(&data)).await, ErrorCode::NotFound);
    assert_eq!(refusal(&anna, &[json!({})]).await, ErrorCode::FileUnreadable);
    assert_eq!(
        refusal(&anna, &[json!({ "path": "https://example.com/a.csv" })]).await,
        ErrorCode::NotFound
    );
    assert_eq!(refusal(&anna, &[json!({ "path": "/etc/passwd" })]).await, ErrorCode::NotFound);
    let many = vec![data; FILES_PER_MESSAGE + 1];
    assert_eq!(refusal(&anna, &many).await, ErrorCode::BadRequest);
    let refused = resolve_files(&stand.app, &anna, &many, Locale::Ru).await.unwrap_err();
    assert_eq!(refused.detail, "В сообщении может быть не больше 5 файлов.");
    let gone = [json!("0123456789abcdef0123456789abcdef/a.csv")];
    let gone = resolve_files(&stand.app, &anna, &gone, Locale::En).await.unwrap_err();
    assert_eq!(gone.code, ErrorCode::NotFound);
    assert!(gone.detail.contains("kept for a day"), "{}", gone.detail);
    assert_eq!(
        resolve_files(&stand.app, &anna, &many[1..], Locale::En).await.unwrap().len(),
        FILES_PER_MESSAGE
    );
}

async fn upload(stand: &Stand, user: &str, body: Body) -> Answer {
    let url = format!("{}/gradio_api/upload?upload_id=abc", stand.base);
    let request = stand.http.post(url).bearer_auth(token::user(user));
    let request = request.header("content-type", "multipart/form-data; boundary=BOUNDARY");
    read(request.body(body).send().await.unwrap()).await
}

async fn download(stand: &Stand, user: &str, path: &str) -> (u16, Vec<u8>) {
    let url = format!("{}/gradio_api/file={path}", stand.base);
    let response = stand.http.get(url).bearer_auth(token::user(user)).send().await.unwrap();
    (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
}

/// Sent without a Content-Length.
fn chunked(body: Vec<u8>) -> Body {
    let chunks: Vec<Result<Vec<u8>, std::io::Error>> =
        body.chunks(50_000).map(|chunk| Ok(chunk.to_vec())).collect();
    Body::wrap_stream(stream::iter(chunks))
}

fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file_name, content) in parts {
        let file_name = file_name.map(|name| format!("; filename=\"{name}\"")).unwrap_or_default();
        let head = format!(
            "--BOUNDARY\r\ncontent-disposition: form-data; name=\"{name}\"{file_name}\r\n\
             content-type: text/plain\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--BOUNDARY--\r\n");
    body
}
