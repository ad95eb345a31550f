//! A new migration makes the crate that embeds them build again.
fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
