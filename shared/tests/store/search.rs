//! Search in titles and messages. The test server has locale C, which knows no Russian letters.
use shared::store::conversations::{self, Filter};
use shared::store::paging::Paging;

use crate::world::{World, conversation_id};

#[tokio::test]
async fn words_are_found_in_both_languages() {
    let world = World::new().await;
    world
        .talk(conversation_id(), "Покажи ДАШБОРДЫ с проблемами", "Найдено три: отчёт по Ёлкам")
        .await;
    world
        .talk(conversation_id(), "Deploy the sales dashboard", "Deployed report.pdf to /srv/prod-2")
        .await;
    for (search, expected) in [
        ("дашборд", 1),
        ("дашбордами", 1),
        ("дашб", 1),
        ("Проблема", 1),
        ("ПРОБЛЕМЫ дашборды", 1),
        ("елка", 1),
        ("отчет", 1),
        ("отчёты", 1),
        ("dashboards", 1),
        ("DEPLOYING", 1),
        ("pdf", 1),
        ("report.pdf", 1),
        ("prod 2", 1),
        ("/srv/prod-2", 1),
        ("the", 1),
        ("с", 1),
        ("кошка", 0),
        ("dashboard cat", 0),
        ("boards", 0),
        ("ashb", 1), // in a title any part counts
        ("eploye", 0),
        ("sales dash", 1),
        ("", 2),
        ("  ", 2),
        ("!!!", 0),
        ("' & | ! :* <-> (", 0),
        ("\0", 0),
    ] {
        assert_eq!(found(&world, search).await, expected, "{search:?}");
    }
}

#[tokio::test]
async fn a_very_long_message_is_stored_and_its_start_is_found() {
    let world = World::new().await;
    let long = format!("начало {} конец", "слово123 и другое; ".repeat(30_000));
    world.talk(conversation_id(), "вопрос", &long).await;
    assert_eq!(found(&world, "начало").await, 1);
    let word = "я".repeat(1_023);
    world.talk(conversation_id(), "question", &format!("morning {word} evening")).await;
    assert_eq!((found(&world, "evening").await, found(&world, &word).await), (1, 0));
}

#[tokio::test]
async fn an_answer_that_is_written_anew_is_found_by_its_new_words() {
    let world = World::new().await;
    let id = conversation_id();
    world.talk(id, "question", "first version").await;
    sqlx::query("UPDATE agent_messages SET content = 'second attempt' WHERE role = 'assistant'")
        .execute(&world.rows)
        .await
        .unwrap();
    assert_eq!((found(&world, "version").await, found(&world, "attempt").await), (0, 1));
}

#[tokio::test]
async fn a_page_behind_the_last_one_still_has_the_total() {
    let world = World::new().await;
    world.talk(conversation_id(), "dashboards", "three").await;
    let paging = Paging::Numbered { page: 7, page_size: 10 };
    let filter = Filter { search: Some("dashboard"), paging, ..world.filter() };
    let page = conversations::list(&world.rows, &filter).await.unwrap();
    assert_eq!((page.items.len(), page.total, page.next_cursor), (0, 1, None));
}

async fn found(world: &World, search: &str) -> u64 {
    let filter = Filter { search: Some(search), ..world.filter() };
    let page = conversations::list(&world.rows, &filter).await.unwrap();
    assert_eq!(u64::try_from(page.items.len()).unwrap(), page.total);
    page.total
}
