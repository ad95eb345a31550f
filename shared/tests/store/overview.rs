//! What an operator sees.
use shared::store::overview::{Scope, cards, database, leases};

use crate::world::{World, conversation_id, now, user};

#[tokio::test]
async fn leases_are_listed_until_they_are_released() {
    let world = World::new().await;
    let (running, stale, ended) =
        (world.live("a").await, world.live("b").await, world.live("c").await);
    world.expire(stale.conversation).await;
    world.end(&ended, "done").await;
    let all = leases(&world.rows, &Scope::default()).await.unwrap();
    let turns: Vec<_> = all.iter().map(|lease| (lease.turn, lease.is_live())).collect();
    assert_eq!(turns, [(running.turn, true), (stale.turn, false)]);
    let first = &all[0];
    assert_eq!((first.owner.as_str(), first.epoch), ("worker-1", running.epoch));
    assert_eq!((first.user.as_str(), first.attempt), ("anna", Some(1)));
    assert_eq!(
        (first.kind.as_deref(), first.status.as_deref()),
        (Some("message"), Some("running"))
    );
    assert!(first.started_at.is_some() && first.expired_for().is_none());
    assert!((1..=15_000).contains(&first.left_ms), "{}", first.left_ms);
    assert!(all[1].expired_for().is_some());
}

#[tokio::test]
async fn the_view_can_be_narrowed() {
    let world = World::new().await;
    let (one, _other) = (world.live("a").await, world.live("b").await);
    let paused = conversation_id();
    world.paused(paused, &["c1"]).await;
    let scopes = [
        (Scope::default(), 2, 1),
        (Scope { user: Some(user("anna")), ..Scope::default() }, 2, 1),
        (Scope { user: Some(user("boris")), ..Scope::default() }, 0, 0),
        (Scope { conversation: Some(one.conversation), ..Scope::default() }, 1, 0),
        (Scope { conversation: Some(paused), ..Scope::default() }, 0, 1),
    ];
    for (scope, turns, open) in scopes {
        assert_eq!(leases(&world.rows, &scope).await.unwrap().len(), turns, "{scope:?}");
        let cards = cards(&world.rows, &scope).await.unwrap();
        assert_eq!((cards.open, cards.oldest_at.is_some()), (open, open > 0), "{scope:?}");
    }
}

#[tokio::test]
async fn the_server_says_what_it_is() {
    let world = World::new().await;
    let found = database(&world.rows).await.unwrap();
    assert!(found.version_number >= 150_000, "{found:?}");
    assert!(found.connections >= 1 && found.max_connections > 100, "{found:?}");
    assert!(!found.is_standby);
    assert!((found.now - now()).abs() < time::Duration::seconds(60), "{found:?}");
}
