//! The child alone, for the tests of this package. A worker is its own child.
use std::process::ExitCode;

fn main() -> ExitCode {
    documents::child::main()
}
