//! Which calls need a decision, and the question the user is asked.
use contract::event::CardCall;
use contract::job::Locale;
use contract::text;
use serde_json::Value;

/// DECISIONS 9: these ask always, whatever is configured.
pub const ALWAYS_ASK: [&str; 3] = ["deploy_dashboard", "execute_migration", "commit_changes"];

/// A name or value in a question is cut to this.
const VALUE_BYTES: usize = 160;
/// So many values of a list are named.
const LISTED: usize = 5;

/// Whether a call of `tool` waits for the user; `configured` can add tools, never remove one.
pub fn is_dangerous(tool: &str, configured: &[String]) -> bool {
    always_asks(tool) || configured.iter().any(|name| name == tool)
}

pub(crate) fn always_asks(tool: &str) -> bool {
    ALWAYS_ASK.iter().any(|name| tool.trim().eq_ignore_ascii_case(name))
}

/// The question about one call. Values stand in it as the call has them, on one line.
pub fn call_prompt(locale: Locale, tool: &str, input: &Value) -> String {
    match tool {
        "deploy_dashboard" => deploy(locale, input),
        "execute_migration" => migration(locale, input),
        "commit_changes" => commit(locale, input),
        _ => match locale {
            Locale::En => format!("Run \u{201c}{}\u{201d}?", one_line(tool)),
            Locale::Ru => format!("Выполнить «{}»?", one_line(tool)),
        },
    }
}

/// The question above all calls of a card.
pub fn card_prompt(locale: Locale, calls: &[CardCall]) -> String {
    if let [only] = calls {
        return only.prompt.clone();
    }
    let number = calls.len();
    let mut prompt = match locale {
        Locale::En => format!("Confirm {number} operations?"),
        Locale::Ru => format!("Подтвердить операции ({number})?"),
    };
    for call in calls {
        prompt.push_str("\n• ");
        prompt.push_str(&call.prompt);
    }
    prompt
}

fn deploy(locale: Locale, input: &Value) -> String {
    let dashboard = field(input, &["dashboard_id", "dashboard", "dashboard_name", "id"]);
    let target = field(input, &["environment_id", "environment", "target_env_id", "env", "target"]);
    match locale {
        Locale::En => format!(
            "Confirm deploying dashboard{}{}?",
            after(" ", dashboard),
            after(" to environment ", target)
        ),
        Locale::Ru => format!(
            "Подтвердить деплой дашборда{}{}?",
            after(" ", dashboard),
            after(" в окружение ", target)
        ),
    }
}

fn migration(locale: Locale, input: &Value) -> String {
    let what = field(input, &["dashboard_ids", "dashboards", "dashboard_id", "migration_id", "id"]);
    let from = field(input, &["source_env_id", "source_environment", "source", "from"]);
    let to = field(input, &["target_env_id", "target_environment", "target", "to"]);
    let replaces = input.get("replace_db") == Some(&Value::Bool(true));
    match locale {
        Locale::En => format!(
            "Confirm migrating{}{}{}{}?",
            after(" dashboards ", what),
            after(" from ", from),
            after(" to ", to),
            if replaces { ", replacing the database connections" } else { "" }
        ),
        Locale::Ru => format!(
            "Подтвердить миграцию{}{}{}{}?",
            after(" дашбордов ", what),
            after(" из ", from),
            after(" в ", to),
            if replaces {
                " с заменой подключений к базам данных"
            } else {
                ""
            }
        ),
    }
}

fn commit(locale: Locale, input: &Value) -> String {
    let dashboard = field(input, &["dashboard_id", "dashboard", "repository"]);
    let branch = field(input, &["branch", "branch_name"]);
    let files = field(input, &["files"]);
    let message = field(input, &["message", "commit_message"]);
    match locale {
        Locale::En => format!(
            "Confirm committing the changes{}{}{}{}?",
            after(" of dashboard ", dashboard),
            after(" to branch ", branch),
            after(", files: ", files),
            after(", message: ", message)
        ),
        Locale::Ru => format!(
            "Подтвердить коммит изменений{}{}{}{}?",
            after(" дашборда ", dashboard),
            after(" в ветку ", branch),
            after(", файлы: ", files),
            after(", сообщение: ", message)
        ),
    }
}

/// The first of `names` that holds something to show.
fn field(input: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| shown(input.get(name)?))
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.trim().is_empty() => None,
        Value::String(text) => Some(one_line(text)),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => {
            let first: Vec<String> = items.iter().take(LISTED).filter_map(shown).collect();
            let more = items.len().saturating_sub(LISTED);
            let rest = if more > 0 { format!(" +{more}") } else { String::new() };
            (!first.is_empty()).then(|| format!("{}{rest}", first.join(", ")))
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => None,
    }
}

/// No line breaks or other control characters, so that a value can't look like another question.
fn one_line(value: &str) -> String {
    let visible: String = value.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect();
    let folded = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    let (kept, cut) = text::cut_bytes(&folded, VALUE_BYTES);
    if cut { format!("{kept}…") } else { folded }
}

/// Neither a control character nor one that changes the direction of text.
fn is_plain(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn after(word: &str, value: Option<String>) -> String {
    value.map(|value| format!("{word}{value}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_three_tools_ask_whatever_is_configured() {
        for tool in ALWAYS_ASK {
            assert!(is_dangerous(tool, &[]), "{tool}");
        }
        assert!(always_asks(" Deploy_Dashboard"));
        assert!(is_dangerous("start_maintenance", &["start_maintenance".to_owned()]));
        assert!(!is_dangerous("start_maintenance", &[]));
    }

    #[test]
    fn questions_name_what_would_happen() {
        let deploy = json!({"dashboard_id": 42, "environment_id": "prod"});
        check(
            "deploy_dashboard",
            &deploy,
            expect![[r#"
            Confirm deploying dashboard 42 to environment prod?
            Подтвердить деплой дашборда 42 в окружение prod?"#]],
        );
        let migration = json!({
            "source_env_id": "dev",
            "target_env_id": "prod",
            "dashboard_ids": [1, 2, "x", 4, 5, 6, 7],
            "replace_db": true,
        });
        check(
            "execute_migration",
            &migration,
            expect![[r#"
            Confirm migrating dashboards 1, 2, x, 4, 5 +2 from dev to prod, replacing the database connections?
            Подтвердить миграцию дашбордов 1, 2, x, 4, 5 +2 из dev в prod с заменой подключений к базам данных?"#]],
        );
        let commit =
            json!({"dashboard_id": 7, "message": "One\nConfirmed already", "files": ["a.yaml"]});
        check(
            "commit_changes",
            &commit,
            expect![[r#"
            Confirm committing the changes of dashboard 7, files: a.yaml, message: One Confirmed already?
            Подтвердить коммит изменений дашборда 7, файлы: a.yaml, сообщение: One Confirmed already?"#]],
        );
        check(
            "deploy_dashboard",
            &json!([]),
            expect![[r#"
            Confirm deploying dashboard?
            Подтвердить деплой дашборда?"#]],
        );
        check(
            "start_maintenance",
            &json!({}),
            expect![[r#"
            Run “start_maintenance”?
            Выполнить «start_maintenance»?"#]],
        );
    }

    #[test]
    fn a_card_of_several_lists_each() {
        let call = |id: i32| CardCall {
            tool_call_id: id.to_string(),
            tool: "deploy_dashboard".to_owned(),
            input: json!({"id": id}),
            prompt: call_prompt(Locale::Ru, "deploy_dashboard", &json!({"id": id})),
        };
        expect![[r#"
            Подтвердить операции (2)?
            • Подтвердить деплой дашборда 1?
            • Подтвердить деплой дашборда 2?"#]]
        .assert_eq(&card_prompt(Locale::Ru, &[call(1), call(2)]));
        assert_eq!(card_prompt(Locale::Ru, &[call(1)]), call(1).prompt);
    }

    #[track_caller]
    fn check(tool: &str, input: &Value, expected: Expect) {
        let both = [Locale::En, Locale::Ru].map(|locale| call_prompt(locale, tool, input));
        expected.assert_eq(&both.join("\n"));
    }
}
