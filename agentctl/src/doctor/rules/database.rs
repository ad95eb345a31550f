//! Postgres: version, role, migrations, connections.
use shared::store::migrate::{Migration, State};
use shared::store::overview::Database;

use crate::doctor::facts::{DatabaseFacts, Facts};
use crate::doctor::report::Report;
use crate::doctor::rules::count;

const OLDEST: i32 = 150_000;
/// Of the allowed connections, in per cent.
const NEARLY_FULL: i64 = 90;

pub fn apply(facts: &Facts, report: &mut Report) {
    let database = match &facts.database {
        Ok(database) => database,
        Err(problem) => {
            let what = format!("Postgres can't be reached: {problem}");
            report.error(what, "look at DATABASE_URL and at the server");
            return;
        }
    };
    server(&database.server, report);
    connections(facts, &database.server, report);
    migrations(database, report);
}

fn server(server: &Database, report: &mut Report) {
    let version = &server.version;
    if server.version_number >= OLDEST {
        report.ok(format!("Postgres {version} is recent enough"));
    } else {
        report.error(format!("Postgres {version} is too old"), "use Postgres 15 or newer");
    }
    if server.is_standby {
        let what = "DATABASE_URL leads to a standby, which takes no writes";
        report.error(what, "let DATABASE_URL lead to the primary");
    }
}

fn connections(facts: &Facts, server: &Database, report: &mut Report) {
    let (most, used) = (i64::from(server.max_connections), server.connections);
    if used * 100 >= most * NEARLY_FULL {
        report.warning(
            format!("{used} of {most} connections to Postgres are taken"),
            "raise max_connections, or lower DATABASE_POOL and DATABASE_CONNECTIONS",
        );
    }
    let Some(workers) = facts.workers() else { return };
    let of_workers: u64 = workers.iter().map(|heard| heard.report.settings.database_pool).sum();
    let settings = &facts.settings;
    let of_gateways = u64::from(settings.gateways) * u64::from(settings.gateway_connections);
    let all = i64::try_from(of_workers + of_gateways).unwrap_or(i64::MAX);
    let (n, gateways) = (count(workers.len(), "worker"), settings.gateways);
    let gateways = count(usize::try_from(gateways).unwrap_or(usize::MAX), "gateway");
    if all > most {
        report.warning(
            format!(
                "the pools of {n} and {gateways} may hold {all} connections, Postgres gives {most}"
            ),
            "raise max_connections, or lower DATABASE_POOL and DATABASE_CONNECTIONS",
        );
    } else {
        report.ok(format!("the pools of {n} and {gateways} fit: {all} of {most} connections"));
    }
}

fn migrations(database: &DatabaseFacts, report: &mut Report) {
    let migrations = match &database.migrations {
        Ok(migrations) => migrations,
        Err(problem) => {
            let what = format!("the migrations can't be read: {problem}");
            report.error(what, "give this user the right to read _sqlx_migrations");
            return;
        }
    };
    let mut is_fine = true;
    for Migration { version, name, state } in migrations {
        let (what, change) = match state {
            State::Applied => continue,
            // The database is ahead during every roll-out.
            State::Unknown => {
                report.ok(format!("migration {version} ({name}) is of a newer release"));
                continue;
            }
            State::Pending => ("is not applied", "run `gateway migrate`"),
            State::Changed => {
                ("was applied in another form", "deploy the release that belongs to this database")
            }
            State::Failed => ("failed half-way", "repair the database, then run `gateway migrate`"),
        };
        is_fine = false;
        report.error(format!("migration {version} ({name}) {what}"), change);
    }
    if is_fine {
        report.ok("all migrations are applied");
        // Without its tables nothing else can be read.
        if let Err(problem) = &database.leases {
            let what = format!("the leases can't be read: {problem}");
            report.error(what, "give this user the right to read the tables");
        }
    }
}
