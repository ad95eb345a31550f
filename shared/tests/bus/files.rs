//! Uploads in and out.
use shared::bus::files::{self, FileError, FileMeta};
use tokio::io::AsyncReadExt as _;

use crate::server::{Server, within};

const TEN_MIB: usize = 10 * 1024 * 1024;

fn meta() -> FileMeta {
    FileMeta {
        name: "отчёт.pdf".to_owned(),
        mime: "application/pdf".to_owned(),
        owner: "user".to_owned(),
        size_bytes: 0,
    }
}

#[tokio::test]
async fn ten_mebibytes_come_back_as_they_went() {
    let (server, gateway) = Server::ready().await;
    let worker = server.connect().await;
    let content: Vec<u8> = (0..TEN_MIB).map(|at| (at % 251) as u8).collect();
    let meta = meta();
    let put = files::put(&gateway, "blob-1", &meta, content.as_slice());
    assert_eq!(within(30, put).await.unwrap(), TEN_MIB as u64);
    let read = within(30, files::read(&worker, "blob-1", TEN_MIB as u64)).await.unwrap();
    let (found, bytes) = read.unwrap();
    assert_eq!(found, FileMeta { size_bytes: TEN_MIB as u64, ..meta });
    assert!(bytes == content);
}

#[tokio::test]
async fn a_file_can_be_streamed() {
    let (_server, bus) = Server::ready().await;
    files::put(&bus, "blob-1", &meta(), b"content".as_slice()).await.unwrap();
    let (found, mut stream) = files::get(&bus, "blob-1").await.unwrap().unwrap();
    let mut content = String::new();
    within(5, stream.read_to_string(&mut content)).await.unwrap();
    assert_eq!((found.size_bytes, content.as_str()), (7, "content"));
}

#[tokio::test]
async fn what_is_not_there_is_none_and_what_is_too_large_is_refused() {
    let (_server, bus) = Server::ready().await;
    assert_eq!(files::read(&bus, "nothing", 10).await, Ok(None));
    files::put(&bus, "blob-1", &meta(), b"content".as_slice()).await.unwrap();
    let refused = files::read(&bus, "blob-1", 6).await;
    assert_eq!(refused, Err(FileError::TooLarge { max_bytes: 6 }));
}
