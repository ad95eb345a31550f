//! The user's token: in request headers and sealed in the job, nowhere else.
use std::fmt;

/// A JWT without `Bearer `. Has no `Display` and no `Serialize`; `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct UserToken(String);

impl UserToken {
    pub fn new(token: String) -> Self {
        Self(token)
    }

    /// For the header of a backend call and for sealing.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for UserToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserToken(…)")
    }
}
