//! A connection that comes back from a pool carries nothing of its last user.
use std::time::Duration;

use shared::store::pool::{self, Config};

use crate::server::SERVER;
use crate::world::config;

#[tokio::test]
async fn a_transaction_left_open_does_not_swallow_the_next_write() {
    shared::runtime::tls::install_provider();
    let config = Config { max_connections: 1, ..config(SERVER.database().await) };
    let (hot, rows) = (pool::hot(&config).unwrap(), pool::rows(&config).unwrap());
    for failed in [false, true] {
        {
            let client = hot.get().await.unwrap();
            client.batch_execute("BEGIN; SELECT pg_advisory_lock(7)").await.unwrap();
            if failed {
                client.batch_execute("SELECT 1/0").await.unwrap_err();
            }
        }
        hot.get().await.unwrap().execute("CREATE TABLE hot (n int)", &[]).await.unwrap();
        {
            let mut connection = rows.acquire().await.unwrap();
            sqlx::raw_sql("BEGIN").execute(&mut *connection).await.unwrap();
            if failed {
                sqlx::raw_sql("SELECT 1/0").execute(&mut *connection).await.unwrap_err();
            }
        }
        sqlx::query("CREATE TABLE rows (n int)").execute(&rows).await.unwrap();
        let check = Config { application_name: "check".to_owned(), ..config.clone() };
        let check = pool::rows(&check).unwrap();
        let seen: i64 =
            sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE tablename IN ('hot', 'rows')")
                .fetch_one(&check)
                .await
                .unwrap();
        assert_eq!(seen, 2, "failed: {failed}");
        let locks: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7",
        )
        .fetch_one(&check)
        .await
        .unwrap();
        assert_eq!(locks, 0);
        sqlx::raw_sql("DROP TABLE hot; DROP TABLE rows").execute(&check).await.unwrap();
    }
}

#[tokio::test]
async fn a_cancelled_begin_does_not_swallow_the_next_write() {
    let config = Config { max_connections: 1, ..config(SERVER.database().await) };
    let rows = pool::rows(&config).unwrap();
    sqlx::query("CREATE TABLE written (n int)").execute(&rows).await.unwrap();
    for n in 0..40 {
        // Cut off somewhere while BEGIN is on its way.
        let cut = Duration::from_micros(n * 25);
        let _ = tokio::time::timeout(cut, async { rows.begin().await.map(drop) }).await;
        sqlx::query("INSERT INTO written VALUES (1)").execute(&rows).await.unwrap();
    }
    rows.close().await;
    let after = pool::rows(&config).unwrap();
    let written: i64 =
        sqlx::query_scalar("SELECT count(*) FROM written").fetch_one(&after).await.unwrap();
    assert_eq!(written, 40);
}
