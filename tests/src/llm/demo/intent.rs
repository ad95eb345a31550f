//! What a Russian or English phrase asks for.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    Capabilities,
    ProblemDashboards,
    Deploy,
    Migrate,
    Commit,
    CreateBranch,
    Branches,
    Backup,
    Validate,
    StartMaintenance,
    EndMaintenance,
    Maintenance,
    TaskStatus,
    Tasks,
    Environments,
    OneDashboard,
    Dashboards,
    Health,
}

/// In this order; the first with a word of every group in the text wins.
const RULES: [(Intent, &[&[&str]]); 20] = [
    (
        Intent::Capabilities,
        &[&["умеешь", "можешь", "возможност", "помощь", "capabilit", "what can you", "help"]],
    ),
    (Intent::Deploy, &[&["задепло", "деплой", "разверн", "выкат", "deploy"]]),
    (Intent::Migrate, &[&["мигр", "migrat", "перенеси"]]),
    (Intent::Commit, &[&["закоммит", "коммит", "зафиксируй", "commit"]]),
    (Intent::CreateBranch, &[&["создай", "заведи", "create", "make", "new"], &["ветк", "branch"]]),
    (Intent::Branches, &[&["ветк", "ветви", "branch"]]),
    (Intent::Backup, &[&["бэкап", "бекап", "резервн", "backup", "back up"]]),
    (
        Intent::EndMaintenance,
        &[
            &["заверши", "законч", "закрой", "end", "finish", "stop"],
            &["обслуживан", "maintenance", "работы"],
        ],
    ),
    (
        Intent::StartMaintenance,
        &[
            &["начни", "запусти", "включи", "start", "begin"],
            &["обслуживан", "maintenance", "работы"],
        ],
    ),
    (Intent::Maintenance, &[&["обслуживан", "maintenance", "плановые работы"]]),
    (
        Intent::ProblemDashboards,
        &[
            &["проблем", "ошибк", "problem", "broken", "failing", "issues"],
            &["дашборд", "dashboard"],
        ],
    ),
    (
        Intent::Validate,
        &[
            &["провер", "валидир", "запусти валидац", "validate", "run validation"],
            &["дашборд", "dashboard", "валидац", "validat"],
        ],
    ),
    (Intent::TaskStatus, &[&["статус", "состояние", "status"], &["задач", "task"]]),
    (Intent::Tasks, &[&["задач", "task"]]),
    (Intent::Environments, &[&["окружени", "сред", "environment"]]),
    (
        Intent::OneDashboard,
        &[&["дашборд", "dashboard"], &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]],
    ),
    (Intent::Dashboards, &[&["дашборд", "dashboard", "панел"]]),
    (Intent::Health, &[&["здоров", "состояние", "health"]]),
    (Intent::Validate, &[&["валидац", "validation"]]),
    (Intent::Capabilities, &[&["привет", "здравствуй", "hello"]]),
];

impl Intent {
    pub fn of(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let fits = |groups: &[&[&str]]| {
            groups.iter().all(|group| group.iter().any(|word| text.contains(word)))
        };
        RULES.iter().find(|(_, groups)| fits(groups)).map(|(intent, _)| *intent)
    }

    pub const fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Capabilities => &["show_capabilities"],
            Self::ProblemDashboards => &["search_dashboards", "get_health_summary"],
            Self::Deploy => &["deploy_dashboard"],
            Self::Migrate => &["execute_migration"],
            Self::Commit => &["commit_changes"],
            Self::CreateBranch => &["create_branch"],
            Self::Branches => &["list_branches"],
            Self::Backup => &["run_backup"],
            Self::Validate => &["run_validation"],
            Self::StartMaintenance => &["start_maintenance"],
            Self::EndMaintenance => &["end_maintenance"],
            Self::Maintenance => &["list_maintenance_events"],
            Self::TaskStatus => &["get_task_status"],
            Self::Tasks => &["list_tasks"],
            Self::Environments => &["list_environments"],
            Self::OneDashboard => &["get_dashboard"],
            Self::Dashboards => &["search_dashboards"],
            Self::Health => &["get_health_summary"],
        }
    }
}

const ENVIRONMENTS: [(&str, &[&str]); 3] = [
    ("staging", &["staging", "предпрод", "стейдж", "стейджинг"]),
    ("prod", &["prod", "прод", "боевой", "боевую"]),
    ("dev", &["dev", "разработк", "дев"]),
];

/// Environments in the order in which the text names them.
pub fn environments(text: &str) -> Vec<&'static str> {
    let mut found: Vec<(usize, &str)> = Vec::new();
    for (id, names) in ENVIRONMENTS {
        let at = names.iter().filter_map(|name| word_starting_with(text, name)).min();
        if let Some(at) = at {
            found.push((at, id));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, id)| id).collect()
}

fn word_starting_with(text: &str, name: &str) -> Option<usize> {
    let at_word = |(at, _): &(usize, &str)| {
        text[..*at].chars().next_back().is_none_or(|c| !c.is_alphanumeric())
    };
    let whole =
        |(at, _): &(usize, &str)| name != "прод" || !text[at + name.len()..].starts_with("аж");
    text.match_indices(name).find(|found| at_word(found) && whole(found)).map(|(at, _)| at)
}

/// Text between quotation marks.
pub fn quoted(text: &str) -> Option<String> {
    for (open, close) in [('«', '»'), ('"', '"'), ('`', '`'), ('\'', '\'')] {
        let inner = text.split_once(open).and_then(|(_, rest)| rest.split_once(close));
        if let Some((inner, _)) = inner.filter(|(inner, _)| !inner.is_empty()) {
            return Some(inner.to_owned());
        }
    }
    None
}

/// A topic that the demo's dashboards have.
pub fn search_words(text: &str) -> Option<&'static str> {
    let topics = [
        ("продаж", "продаж"),
        ("sales", "sales"),
        ("маркетинг", "маркетинг"),
        ("marketing", "marketing"),
        ("финанс", "finance"),
        ("finance", "finance"),
        ("склад", "склад"),
    ];
    topics.iter().find(|(word, _)| text.contains(word)).map(|(_, search)| *search)
}

/// Something like `task-3` or `maint-1`.
pub fn name_like_id(text: &str) -> Option<String> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',' || c == '?');
    let like_id = |word: &&str| word.contains('-') && word.ends_with(|c: char| c.is_ascii_digit());
    words.clone().find(like_id).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_have_intents() {
        let phrases = [
            ("покажи дашборды с проблемами валидации", Intent::ProblemDashboards),
            ("show dashboards with validation problems", Intent::ProblemDashboards),
            ("задеплой дашборд 42 на prod", Intent::Deploy),
            ("создай для него ветку", Intent::CreateBranch),
            ("покажи дашборд 42", Intent::OneDashboard),
            ("какие есть окружения?", Intent::Environments),
            ("перенеси дашборд 7 со staging на prod", Intent::Migrate),
            ("сделай бэкап", Intent::Backup),
            ("начни обслуживание prod на 20 минут", Intent::StartMaintenance),
            ("статус задачи task-3", Intent::TaskStatus),
            ("что ты умеешь?", Intent::Capabilities),
        ];
        for (phrase, intent) in phrases {
            assert_eq!(Intent::of(phrase), Some(intent), "{phrase}");
        }
        assert_eq!(Intent::of("расскажи сказку"), None);
    }

    #[test]
    fn environments_come_in_order() {
        assert_eq!(environments("со staging на prod"), ["staging", "prod"]);
        assert_eq!(environments("с прода в dev"), ["prod", "dev"]);
        assert_eq!(environments("дашборды продаж"), [""; 0]);
    }
}
