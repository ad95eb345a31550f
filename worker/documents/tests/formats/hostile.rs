//! Files made to do harm, each read in a child whose cost the kernel counts: refused or cut, within two seconds of
//! the processor and 256 MiB.
mod pdfs;
mod pictures;
mod texts;
mod workbooks;

use std::io::Write as _;

use contract::job::Locale;
use documents::extracted::Extracted;
use documents::failure::Failure;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::child;
use crate::reader;

/// In one word: what failed, what it was cut for, or `whole`.
fn outcome(read: &Result<Extracted, Failure>) -> String {
    match read {
        Ok(extracted) => extracted.cut.map_or("whole".to_owned(), |why| format!("cut: {why:?}")),
        Err(failure) => format!("{failure:?}"),
    }
}

/// `expected` has more than one where a faster machine gets further.
async fn suffer(name: &str, bytes: &[u8], expected: &[&str]) -> String {
    let (read, cost) = child::read(&reader(), name, bytes).await;
    let outcome = outcome(&read);
    println!(
        "{name:32} {:>9} bytes  {:>5} ms cpu  {:>4} MiB  {:>5} ms  {outcome}",
        bytes.len(),
        cost.cpu.as_millis(),
        cost.peak_bytes >> 20,
        cost.wall.as_millis()
    );
    cost.within_limits(name);
    assert!(expected.contains(&outcome.as_str()), "{name}: {outcome}");
    read.map(|extracted| extracted.text(Locale::En)).unwrap_or_default()
}

/// A zlib stream of `filling` over and over, up to `size` bytes, between two texts.
fn deflated((before, after): (&[u8], &[u8]), filling: &[u8], size: usize) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(before).unwrap();
    let block = filling.repeat((1 << 20) / filling.len());
    for _ in 0..size.div_ceil(block.len()) {
        encoder.write_all(&block).unwrap();
    }
    encoder.write_all(after).unwrap();
    encoder.finish().unwrap()
}
