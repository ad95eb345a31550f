//! What can be done to a worker, and where.
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// SIGKILL; the message is not delivered.
    KillBefore,
    /// SIGKILL; the message is delivered, its answer is not.
    KillAfter,
    /// SIGSTOP; SIGCONT when another worker has gone on. The message comes late.
    Freeze,
    /// Connections to NATS are reset and refused for longer than the lease. The message is lost.
    CutNats,
    /// Nothing passes to and from NATS for longer than the lease; then everything comes late.
    StallNats,
    CutPostgres,
    StallPostgres,
}

impl Fault {
    pub const ALL: [Self; 7] = [
        Self::KillBefore,
        Self::KillAfter,
        Self::Freeze,
        Self::CutNats,
        Self::StallNats,
        Self::CutPostgres,
        Self::StallPostgres,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::KillBefore => "kill-before",
            Self::KillAfter => "kill-after",
            Self::Freeze => "freeze",
            Self::CutNats => "cut-nats",
            Self::StallNats => "stall-nats",
            Self::CutPostgres => "cut-postgres",
            Self::StallPostgres => "stall-postgres",
        }
    }

    /// The worker is gone for good.
    pub const fn kills(self) -> bool {
        match self {
            Self::KillBefore | Self::KillAfter => true,
            Self::Freeze
            | Self::CutNats
            | Self::StallNats
            | Self::CutPostgres
            | Self::StallPostgres => false,
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|fault| fault.name() == text);
        found.ok_or_else(|| {
            format!("no such fault; there are: {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// A message of a run: the so-manieth of its kind. Messages that are sent at the same time may swap their
/// places in a run, but keep this name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    pub label: String,
    /// From 1.
    pub occurrence: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} #{}", self.label, self.occurrence)
    }
}
