//! What the scripted model says, in the user's language, from the results of its tools.
use serde_json::Value;

use super::View;

/// Markdown of every kind, of about so many tokens.
pub fn article(tokens: usize) -> String {
    const SECTION: &str = "## Сверка {n}: поставщики и сроки\n\nЗа неделю **сроки доставки** выросли на 4,2 %, а доля _отказов_ \
        осталась прежней. Причина в складе `warehouse_eu`: он ждёт источник данных `orders_v2`.\n\n\
        - Проверьте источник `orders_v2`\n- Сравните с прошлой неделей\n  - по регионам\n  - по складам\n- Сообщите владельцу\n\n\
        | Регион | Заказы | Срок, дней |\n| --- | ---: | ---: |\n| Север | 1 204 | 3,1 |\n| Юг | 987 | 4,6 |\n| Центр | 5 410 | 2,2 |\n\n\
        ```sql\nselect region, count(*) as orders, avg(days) as days\nfrom deliveries\nwhere week = {n}\ngroup by region\norder by days desc;\n```\n\n\
        > Данные за последний день ещё неполные.\n\n1. Откройте дашборд\n2. Обновите набор\n3. Запустите проверку\n\n";
    // About four characters a token, as the scripted model cuts them.
    let per_section = SECTION.chars().count() / 4;
    (1..=tokens.div_ceil(per_section)).map(|n| SECTION.replace("{n}", &n.to_string())).collect()
}

fn pick(view: &View<'_>, ru: &str, en: &str) -> String {
    if view.russian { ru.to_owned() } else { en.to_owned() }
}

fn greeting(view: &View<'_>) -> String {
    if !view.first_answer {
        return String::new();
    }
    pick(
        view,
        "> Отвечает модель по сценарию, не нейросеть: она выбирает инструменты по правилам. Настоящая подключается переменными `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_MODEL`.\n\n",
        "> This is a scripted model, not a neural one: it picks tools by rules. Set `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_MODEL` for a real one.\n\n",
    )
}

/// Said before the tools run.
pub fn opening(view: &View<'_>) -> String {
    greeting(view) + &pick(view, "Сейчас посмотрю. ", "Let me look. ")
}

/// Said when there is nothing more to call.
pub fn closing(view: &View<'_>) -> String {
    if view.results.is_empty() {
        let shrug = pick(
            view,
            "Я понимаю просьбы о дашбордах, ветках, деплое, миграциях, задачах и обслуживании. Например: «покажи дашборды с проблемами валидации» или «задеплой дашборд 42 на prod».",
            "I understand requests about dashboards, branches, deployments, migrations, tasks and maintenance. For example: \"show dashboards with validation problems\" or \"deploy dashboard 42 to prod\".",
        );
        return greeting(view) + &shrug;
    }
    let healthy = view.results.iter().any(|(tool, _)| tool == "get_health_summary");
    let sentences: Vec<String> = view
        .results
        .iter()
        // A health summary says more about the same dashboards.
        .filter(|(tool, _)| !healthy || tool != "search_dashboards")
        .map(|(tool, content)| sentence(view, tool, content))
        .collect();
    sentences.join("\n\n")
}

fn sentence(view: &View<'_>, tool: &str, content: &str) -> String {
    let parsed: Value = serde_json::from_str(content).unwrap_or(Value::Null);
    let lower = content.to_lowercase();
    if is_failure(&parsed, &lower) {
        return failure(view, tool, content, &lower);
    }
    if let Some(problems) = find(&parsed, "problems").and_then(Value::as_array) {
        return problems_found(view, problems);
    }
    if let Some(items) = find(&parsed, "items").and_then(Value::as_array) {
        return listing(view, tool, items);
    }
    if let Some(items) = find(&parsed, "capabilities").and_then(Value::as_array) {
        return listing(view, tool, items);
    }
    for key in ["deployment_id", "job_id", "task_id", "commit"] {
        if let Some(id) = find(&parsed, key).and_then(Value::as_str) {
            return pick(
                view,
                &format!("Готово: `{tool}`, номер **{id}**."),
                &format!("Done: `{tool}`, number **{id}**."),
            );
        }
    }
    let short: String = content.chars().take(300).collect();
    pick(view, &format!("{tool}: {short}"), &format!("{tool}: {short}"))
}

fn is_failure(parsed: &Value, lower: &str) -> bool {
    let named = ["error", "refused", "denied"].iter().any(|key| parsed.get(key).is_some());
    let worded = ["error", "denied", "refused", "not allow", "не разреш", "отказ", "ошибк"];
    named || (!parsed.is_object() && worded.iter().any(|word| lower.contains(word)))
}

fn failure(view: &View<'_>, tool: &str, content: &str, lower: &str) -> String {
    let short: String = content.chars().take(300).collect();
    if ["denied", "not allow", "declin", "did not", "отклон", "не разреш"]
        .iter()
        .any(|word| lower.contains(word))
    {
        let ru = format!("Хорошо, {tool} не выполняю. Скажите, если понадобится.");
        return pick(
            view,
            &ru,
            &format!("All right, I leave {tool} alone. Tell me when you need it."),
        );
    }
    let ru = format!(
        "{tool} не получилось: {short}. Проверьте параметры или права и попробуйте ещё раз."
    );
    pick(
        view,
        &ru,
        &format!("{tool} failed: {short}. Check the parameters or your permissions and try again."),
    )
}

fn problems_found(view: &View<'_>, problems: &[Value]) -> String {
    // One dashboard's own list of problems.
    if problems.iter().all(Value::is_string) {
        let lines = problems.iter().filter_map(Value::as_str).map(|problem| format!("- {problem}"));
        let head = pick(view, "Проблемы валидации", "Validation problems");
        return format!("{head} ({}):\n\n{}", problems.len(), lines.collect::<Vec<_>>().join("\n"));
    }
    let rows: Vec<String> = problems.iter().take(12).map(|problem| row(view, problem)).collect();
    let head = pick(view, "Дашборды с проблемами валидации", "Dashboards with validation problems");
    let names = pick(view, "ID | Дашборд | Проблемы", "ID | Dashboard | Problems");
    let advice = pick(
        view,
        "Начните с **Воронки маркетинга**: там две проблемы сразу.",
        "Start with **Marketing funnel**: it has two problems at once.",
    );
    format!(
        "{head} ({}):\n\n| {names} |\n| ---: | --- | --- |\n{}\n\n{advice}",
        problems.len(),
        rows.join("\n")
    )
}

fn row(view: &View<'_>, dashboard: &Value) -> String {
    let title = if view.russian { &dashboard["title_ru"] } else { &dashboard["title"] };
    let problems = dashboard["problems"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let problems = problems.collect::<Vec<_>>().join("; ");
    format!(
        "| {} | {} | {problems} |",
        dashboard["dashboard_id"],
        title.as_str().unwrap_or_default()
    )
}

fn listing(view: &View<'_>, tool: &str, items: &[Value]) -> String {
    let lines: Vec<String> =
        items.iter().take(20).map(|item| format!("- {}", line(view, item))).collect();
    let head = match tool {
        "search_dashboards" => pick(view, "Всего дашбордов", "Dashboards"),
        "list_branches" => pick(view, "Ветки", "Branches"),
        "list_tasks" => pick(view, "Задачи", "Tasks"),
        "list_environments" => pick(view, "Окружения", "Environments"),
        "show_capabilities" => pick(view, "Вот что я умею", "This is what I can do"),
        "list_maintenance_events" => pick(view, "Обслуживание", "Maintenance"),
        other => other.to_owned(),
    };
    if view.results.len() > 1 {
        return format!("{head}: {}.", items.len());
    }
    format!("{head} ({}):\n\n{}", items.len(), lines.join("\n"))
}

/// One item of a list: its number and name, and what is wrong with it.
fn line(view: &View<'_>, item: &Value) -> String {
    let first = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| item.get(key).filter(|value| !value.is_null()));
        found
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .unwrap_or_default()
    };
    let id = first(&["dashboard_id", "id", "name"]);
    let titles: &[&str] = if view.russian {
        &["title_ru", "name_ru", "title", "message"]
    } else {
        &["title", "name", "message"]
    };
    let title = first(titles);
    let problems = item["problems"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let status = first(&["status"]);
    let mut parts = vec![id, title, status];
    parts.extend(problems.map(str::to_owned));
    parts.retain(|part| !part.is_empty());
    parts.dedup();
    parts.join(" · ")
}

/// The value under `key`, wherever it is.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(object) => {
            object.get(key).or_else(|| object.values().find_map(|inner| find(inner, key)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}
