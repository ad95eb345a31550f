//! Migrations by several starters, and the check of a binary that doesn't migrate.
use futures_util::future::join_all;
use shared::store::migrate::{self, Migration, State};
use shared::store::pool;

use crate::server::SERVER;
use crate::world::{World, config};

#[tokio::test]
async fn five_starters_migrate_one_database() {
    SERVER.admin("CREATE DATABASE five").await;
    let url = SERVER.url("five");
    for result in join_all((0..5).map(|_| migrate::run(&url))).await {
        result.unwrap();
    }
    let config = config(url);
    migrate::verify(&pool::rows(&config).unwrap()).await.unwrap();
    shared::runtime::tls::install_provider();
    migrate::verify_hot(&pool::hot(&config).unwrap()).await.unwrap();
}

#[tokio::test]
async fn an_empty_or_older_database_is_not_ready() {
    let world = World::new().await;
    sqlx::query("DELETE FROM _sqlx_migrations WHERE version = 5")
        .execute(&world.rows)
        .await
        .unwrap();
    assert_eq!(
        migrate::verify(&world.rows).await.unwrap_err().to_string(),
        "migration 5 is not applied"
    );
    sqlx::query("DROP TABLE _sqlx_migrations").execute(&world.rows).await.unwrap();
    assert!(migrate::verify_hot(&world.hot).await.is_err());
}

#[tokio::test]
async fn a_newer_database_is_fine() {
    let world = World::new().await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
        VALUES (9999, 'from the future', true, '', 0)";
    sqlx::query(newer).execute(&world.rows).await.unwrap();
    migrate::verify(&world.rows).await.unwrap();
    let database: String =
        sqlx::query_scalar("SELECT current_database()").fetch_one(&world.rows).await.unwrap();
    migrate::run(&SERVER.url(&database)).await.unwrap();
}

#[tokio::test]
async fn an_encoding_that_can_not_hold_every_text_is_refused() {
    SERVER.admin("CREATE DATABASE latin TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'").await;
    let error = migrate::run(&SERVER.url("latin")).await.unwrap_err();
    assert_eq!(error.to_string(), "the database has encoding SQL_ASCII; it must be UTF8");
}

#[tokio::test]
async fn every_migration_says_how_it_stands() {
    let world = World::new().await;
    let mut before = migrate::states(&world.rows).await.unwrap();
    assert!(before.iter().all(|migration| migration.state == State::Applied), "{before:?}");
    let changes = "DELETE FROM _sqlx_migrations WHERE version = 5; \
        UPDATE _sqlx_migrations SET checksum = 'x' WHERE version = 4; \
        UPDATE _sqlx_migrations SET success = false WHERE version = 3; \
        INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
        VALUES (9999, 'from the future', true, '', 0)";
    sqlx::raw_sql(changes).execute(&world.rows).await.unwrap();
    for (at, state) in [(4, State::Pending), (3, State::Changed), (2, State::Failed)] {
        before[at].state = state;
    }
    let newer =
        Migration { version: 9999, name: "from the future".to_owned(), state: State::Unknown };
    before.push(newer);
    assert_eq!(migrate::states(&world.rows).await.unwrap(), before);
    sqlx::query("DROP TABLE _sqlx_migrations").execute(&world.rows).await.unwrap();
    let none = migrate::states(&world.rows).await.unwrap();
    assert!(none.iter().all(|migration| migration.state == State::Pending), "{none:?}");
}
