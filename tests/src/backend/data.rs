//! Demo data, in Russian and English.
use serde_json::{Value, json};

pub fn environments() -> Vec<Value> {
    vec![
        json!({"id": "prod", "name": "Production", "name_ru": "Прод", "kind": "production", "version": "4.1.2"}),
        json!({"id": "staging", "name": "Staging", "name_ru": "Предпрод", "kind": "staging", "version": "4.1.2"}),
        json!({"id": "dev", "name": "Development", "name_ru": "Разработка", "kind": "development", "version": "4.2.0-rc1"}),
    ]
}

type Row = (u32, &'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

const DASHBOARDS: [Row; 12] = [
    (7, "Warehouse stock", "Складские остатки", "logistics", "prod", &[]),
    (
        11,
        "Delivery times",
        "Сроки доставки",
        "logistics",
        "prod",
        &["chart `p95` has no data source"],
    ),
    (
        17,
        "Marketing funnel",
        "Воронка маркетинга",
        "marketing",
        "prod",
        &["column `utm_source` is missing", "filter `region` points at a dropped dataset"],
    ),
    (23, "HR headcount", "Численность персонала", "hr", "staging", &[]),
    (31, "Finance P&L", "Прибыль и убытки", "finance", "prod", &[]),
    (
        38,
        "Customer churn",
        "Отток клиентов",
        "crm",
        "staging",
        &["dataset `churn_daily` fails its schema check"],
    ),
    (
        42,
        "Sales overview",
        "Обзор продаж",
        "sales",
        "prod",
        &["dataset `orders` has 3 unknown columns"],
    ),
    (43, "Sales by region", "Продажи по регионам", "sales", "staging", &[]),
    (57, "Support tickets", "Обращения в поддержку", "support", "prod", &[]),
    (64, "Ad spend", "Расходы на рекламу", "marketing", "dev", &[]),
    (71, "Payment failures", "Отказы платежей", "finance", "prod", &["chart `by_bank` times out"]),
    (99, "Executive summary", "Сводка для руководства", "board", "prod", &[]),
];

pub fn dashboards() -> Vec<Value> {
    let row = |(id, title, title_ru, owner, environment, problems): &Row| {
        let status = if problems.is_empty() { "passed" } else { "failed" };
        json!({
            "id": id, "title": title, "title_ru": title_ru, "owner": owner, "environment_id": environment,
            "slug": title.to_lowercase().replace(' ', "-"),
            "validation": {"status": status, "problems": problems},
        })
    };
    DASHBOARDS.iter().map(row).collect()
}

pub fn tasks() -> Vec<Value> {
    vec![
        json!({"id": "task-1", "plugin_id": "backup", "status": "completed", "progress": 100, "started_at": "2026-06-01T02:00:00Z"}),
        json!({"id": "task-2", "plugin_id": "validation", "status": "failed", "progress": 60, "started_at": "2026-06-02T09:30:00Z",
               "error": "dashboard 17: column `utm_source` is missing"}),
        json!({"id": "task-3", "plugin_id": "migration", "status": "running", "progress": 35, "started_at": "2026-06-03T11:15:00Z"}),
    ]
}

pub fn maintenance() -> Vec<Value> {
    vec![
        json!({"id": "maint-1", "environment_id": "staging", "message": "Обновление кластера / cluster upgrade",
               "duration_minutes": 60, "active": true, "started_at": "2026-06-03T10:00:00Z"}),
        json!({"id": "maint-0", "environment_id": "prod", "message": "Плановые работы / planned works",
               "duration_minutes": 30, "active": false, "started_at": "2026-05-20T01:00:00Z"}),
    ]
}
