//! Phrases as people write them: the tool they need is offered.
use super::*;

const ALL: [&str; 22] = [
    "show_capabilities",
    "search_dashboards",
    "get_dashboard",
    "get_health_summary",
    "list_environments",
    "get_task_status",
    "list_tasks",
    "list_branches",
    "create_branch",
    "get_git_status",
    "get_diff",
    "commit_changes",
    "deploy_dashboard",
    "execute_migration",
    "run_backup",
    "restore_backup",
    "run_validation",
    "get_validation_report",
    "generate_documentation",
    "list_maintenance_events",
    "start_maintenance",
    "end_maintenance",
];

/// A query and tools it can't do without.
const PHRASES: &[(&str, &[&str])] = &[
    (
        "покажи дашборды с проблемами валидации",
        &["search_dashboards", "get_health_summary", "run_validation"],
    ),
    ("покажи дашборд 42", &["search_dashboards", "get_dashboard"]),
    ("создай для него ветку", &["create_branch"]),
    ("Создайте новую ветку fix/sales от main", &["create_branch", "list_branches"]),
    ("какие ветки есть у дашборда продаж?", &["list_branches"]),
    ("сколько веток у репозитория", &["list_branches"]),
    ("в какой ветке сейчас дашборд", &["list_branches", "get_git_status"]),
    ("закоммить изменения с сообщением «правки»", &["commit_changes"]),
    ("сделай коммит", &["commit_changes"]),
    ("зафиксируй правки в ветке", &["commit_changes"]),
    ("сохрани изменения дашборда", &["commit_changes"]),
    ("что изменилось с последнего коммита?", &["get_diff", "get_git_status"]),
    ("покажи разницу между версиями", &["get_diff"]),
    (
        "задеплой дашборд 42 на прод",
        &["deploy_dashboard", "list_environments", "search_dashboards"],
    ),
    ("Разверни отчёт по продажам на стейдже", &["deploy_dashboard", "list_environments"]),
    ("нужен деплой", &["deploy_dashboard"]),
    ("выкати его в прод", &["deploy_dashboard", "list_environments"]),
    ("выкладывай на бой", &["deploy_dashboard"]),
    ("опубликуй борд", &["deploy_dashboard"]),
    ("запусти миграцию с dev на prod", &["execute_migration", "list_environments"]),
    (
        "перенеси дашборд из теста в прод",
        &["execute_migration", "list_environments", "search_dashboards"],
    ),
    ("Мигрируем всё на новый контур", &["execute_migration", "list_environments"]),
    ("скопируй дашборды на другой стенд", &["execute_migration", "list_environments"]),
    ("статус задачи 17", &["get_task_status"]),
    ("готово?", &["get_task_status"]),
    ("какие таски сейчас выполняются", &["list_tasks"]),
    ("как там прогресс", &["get_task_status"]),
    ("сделай бэкап всех дашбордов", &["run_backup"]),
    ("нужна резервная копия перед релизом", &["run_backup"]),
    ("восстанови из бекапа", &["restore_backup"]),
    ("запусти валидацию дашборда 7", &["run_validation", "search_dashboards"]),
    ("проверь, всё ли в порядке с отчётами", &["run_validation", "get_health_summary"]),
    ("есть ли ошибки в дашбордах?", &["get_health_summary", "search_dashboards"]),
    ("что сломалось?", &["get_health_summary"]),
    ("всё работает?", &["get_health_summary"]),
    ("здоровье системы", &["get_health_summary"]),
    ("какие окружения доступны", &["list_environments"]),
    ("список сред", &["list_environments"]),
    ("начни обслуживание сегодня в 22:00", &["start_maintenance"]),
    ("запланируй техработы", &["start_maintenance", "list_maintenance_events"]),
    ("заверши обслуживание", &["end_maintenance"]),
    ("останови плановые работы", &["end_maintenance"]),
    ("когда ближайшее окно обслуживания", &["list_maintenance_events"]),
    ("что ты умеешь?", &["show_capabilities"]),
    ("помощь", &["show_capabilities", "search_dashboards"]),
    ("составь документацию по датасету", &["generate_documentation"]),
    (
        "привет",
        &[
            "show_capabilities",
            "search_dashboards",
            "get_health_summary",
            "list_environments",
            "get_task_status",
        ],
    ),
    (
        "show dashboards with validation problems",
        &["search_dashboards", "get_health_summary", "run_validation"],
    ),
    ("Find the sales dashboard", &["search_dashboards"]),
    ("create a branch for it", &["create_branch"]),
    ("List branches of dashboard 42", &["list_branches"]),
    ("commit my changes", &["commit_changes"]),
    ("what changed since yesterday?", &["get_diff"]),
    ("Deploy it to production", &["deploy_dashboard", "list_environments"]),
    ("ship 42 to staging", &["deploy_dashboard"]),
    ("migrate the dashboard from dev to prod", &["execute_migration", "list_environments"]),
    ("move everything to the new instance", &["execute_migration"]),
    ("is task 17 done?", &["get_task_status"]),
    ("back up the dashboards", &["run_backup"]),
    ("restore the last snapshot", &["restore_backup"]),
    ("run the checks on 42", &["run_validation"]),
    ("is anything broken?", &["get_health_summary"]),
    ("which environments do we have", &["list_environments"]),
    ("start maintenance at 10 pm", &["start_maintenance"]),
    ("end the maintenance window", &["end_maintenance"]),
    ("upcoming downtime?", &["list_maintenance_events"]),
    ("help", &["show_capabilities"]),
    ("describe this dataset", &["generate_documentation", "search_dashboards"]),
    ("call get_diff please", &["get_diff"]),
    ("ПОКАЖИ ДАШБОРДЫ!!!", &["search_dashboards"]),
];

/// Before, what was used, and what the follow-up needs.
const FOLLOW_UPS: &[(&str, &[&str], &[&str])] = &[
    ("создай для него ветку", &["search_dashboards"], &["create_branch", "search_dashboards"]),
    ("а теперь для него", &["create_branch"], &["create_branch", "commit_changes"]),
    ("и его тоже", &["run_validation"], &["run_validation"]),
    (
        "а что с ним сейчас?",
        &["start_maintenance"],
        &["start_maintenance", "end_maintenance", "list_maintenance_events"],
    ),
    (
        "да, давай",
        &["search_dashboards"],
        &["deploy_dashboard", "execute_migration", "create_branch"],
    ),
    ("сделай это", &[], &["deploy_dashboard"]),
    ("yes, go ahead", &["get_dashboard"], &["deploy_dashboard"]),
    ("and that one?", &["get_task_status"], &["get_task_status"]),
    ("the second one", &["deploy_dashboard"], &["deploy_dashboard"]),
];

#[test]
fn every_phrase_gets_the_tools_it_needs() {
    let misses: Vec<String> = PHRASES
        .iter()
        .map(|(query, needed)| (*query, [].as_slice(), *needed))
        .chain(FOLLOW_UPS.iter().copied())
        .filter_map(|(query, previous, needed)| {
            let offered = tools_for(query, &names(previous), &names(&ALL));
            let missing: Vec<&&str> =
                needed.iter().filter(|tool| !offered.contains(&(**tool).to_owned())).collect();
            (!missing.is_empty()).then(|| format!("{query}: {missing:?} not in {offered:?}"))
        })
        .collect();
    assert!(PHRASES.len() + FOLLOW_UPS.len() >= 60);
    assert_eq!(misses, Vec::<String>::new());
}

#[test]
fn most_queries_see_a_part_of_the_tools() {
    let offered = |query: &str| tools_for(query, &[], &names(&ALL)).len();
    let total: usize = PHRASES.iter().map(|(query, _)| offered(query)).sum();
    let average = total / PHRASES.len();
    assert!(average <= ALL.len() * 2 / 3, "{average} of {}", ALL.len());
}

#[test]
fn a_tool_that_no_intent_knows_stays_while_it_is_used() {
    let all = [names(&ALL), names(&["brew_coffee"])].concat();
    let offered = |previous: &[&str]| tools_for("и ещё одну", &names(previous), &all);
    assert!(offered(&["brew_coffee"]).contains(&"brew_coffee".to_owned()));
    assert!(!offered(&[]).contains(&"brew_coffee".to_owned()));
}

#[test]
fn maintenance_is_what_the_contract_lists() {
    let offered = tools_for("maintenance", &[], &names(&ALL));
    for tool in
        ["show_capabilities", "list_maintenance_events", "start_maintenance", "end_maintenance"]
    {
        assert!(offered.contains(&tool.to_owned()), "{tool}");
    }
    assert!(!offered.contains(&"deploy_dashboard".to_owned()));
}

#[test]
fn the_fallback_is_asked_only_when_keywords_find_too_little() {
    struct Finds;
    impl Fallback for Finds {
        fn nearest(&self, _query: &str) -> Vec<String> {
            vec!["run_backup".to_owned(), "no_such_tool".to_owned()]
        }
    }
    let offered = |query: &str| tools_with(query, &[], &names(&ALL), &Finds);
    assert!(offered("qwerty").contains(&"run_backup".to_owned()));
    assert!(!offered("покажи дашборд").contains(&"run_backup".to_owned()));
    assert!(offered("qwerty").iter().all(|name| ALL.contains(&name.as_str())));
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
