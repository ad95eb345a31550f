//! What people ask for, by the beginnings of their words, and the tools that serve it.

/// Offered with every query.
pub(super) const ALWAYS: &[&str] = &["show_capabilities"];

/// Offered when nothing else is known: search, health, environments, tasks.
pub(super) const DEFAULT: &[&str] =
    &["search", "health", "environment", "task", "list_dashboard", "get_dashboard"];

pub(super) struct Intent {
    /// Beginnings of words, RU and EN, so that inflected forms match, between spaces. `ё` is written `е`.
    stems: &'static str,
    /// Parts of the names of the tools that do it.
    tools: &'static [&'static str],
    /// Parts of the names of tools that help to do it: finding the dashboard, naming the environment.
    helpers: &'static [&'static str],
}

impl Intent {
    pub(super) fn is_meant(&self, words: &[String]) -> bool {
        let mut stems = self.stems.split_ascii_whitespace();
        stems.any(|stem| words.iter().any(|word| word.starts_with(stem)))
    }

    /// Whether `tool` is one that does it, not only helps.
    pub(super) fn is_at_home(&self, tool: &str) -> bool {
        has_any(tool, self.tools)
    }

    pub(super) fn covers(&self, tool: &str) -> bool {
        has_any(tool, self.tools) || has_any(tool, self.helpers)
    }
}

pub(super) fn has_any(tool: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| tool.contains(part))
}

const FIND: &[&str] = &["search", "list_dashboard", "get_dashboard", "find_"];
const FIND_AND_WHERE: &[&str] =
    &["search", "list_dashboard", "get_dashboard", "find_", "environment"];

pub(super) const INTENTS: &[Intent] = &[
    DASHBOARDS,
    HEALTH,
    VALIDATION,
    MAINTENANCE,
    GIT,
    DEPLOY,
    MIGRATION,
    TASKS,
    BACKUP,
    ENVIRONMENTS,
    DOCUMENTS,
];

const DASHBOARDS: Intent = Intent {
    stems: "дашборд дэшборд дешборд дашбоард борд панел отчет график диаграмм чарт найд найт поиск \
        поищ ищ искат отыщ покаж показ открой список перечисл какие какой где сколько визуализац \
        датасет витрин dashboard dash board panel report chart graph find search show list look \
        open which where dataset superset",
    tools: &["search", "list_dashboard", "get_dashboard", "find_", "chart", "dataset"],
    helpers: &["health"],
};

const HEALTH: Intent = Intent {
    stems: "здоров состоян статус проблем ошибк ошибоч сломан слома поломк работа упал упад пада \
        падени сбо недоступ доступн жив красн авари инцидент сводк метрик монитор health status \
        state problem issue error broken break fail down alive outage incident unhealthy wrong \
        summary metric monitor work",
    tools: &["health", "status", "metric"],
    helpers: &["search", "environment", "task", "list_dashboard", "get_dashboard"],
};

const VALIDATION: Intent = Intent {
    stems: "валид провер верифи тест качеств правил соответств valid verif check test lint quality \
        inspect rule",
    tools: &["validat", "check", "verif"],
    helpers: &["search", "health", "list_dashboard", "get_dashboard", "environment", "task"],
};

const MAINTENANCE: Intent = Intent {
    stems: "обслуж техработ тех регламент окно окна окне простой простоя планов заверш законч \
        закончи останов прекрат баннер объявлен maint downtime window schedul finish end stop \
        banner announce",
    tools: &["maintenance", "banner"],
    helpers: &["environment", "search", "list_dashboard"],
};

const GIT: Intent = Intent {
    stems: "ветк ветв веток бранч брэнч гит коммит комит закоммит закомит зафиксир фиксац сохран \
        измен правк дифф диф разниц мерж мердж смерж смердж слия слей слить пуш запуш пулл \
        подтян стян репозитор реп чекаут переключ истори верси branch git commit save chang diff \
        merge push pull repo checkout switch histor version fork revert",
    tools: &["branch", "commit", "git", "diff", "merge", "push", "pull", "repo", "checkout"],
    helpers: FIND_AND_WHERE,
};

const DEPLOY: Intent = Intent {
    stems: "депло дипло задепло передепло редепло развер разворач развор выкат выкладк выкла вылож \
        залей залив залить публик опублик релиз зарелиз прод стейдж стейж откат откатить доставь \
        установ deploy redeploy releas rollout roll publish ship prod stag rollback deliver",
    tools: &["deploy", "rollback", "publish", "release"],
    helpers: &[
        "search",
        "list_dashboard",
        "get_dashboard",
        "find_",
        "environment",
        "branch",
        "commit",
        "git",
        "health",
        "task",
    ],
};

const MIGRATION: Intent = Intent {
    stems: "мигр смигр перенес перенос перенест перенеси переезд перевез перемест перемещ скопир \
        копир копию клонир синхрон migrat move moving transfer copy clone sync port",
    tools: &["migrat", "sync", "transfer"],
    helpers: &[
        "search",
        "list_dashboard",
        "get_dashboard",
        "find_",
        "environment",
        "task",
        "backup",
    ],
};

const TASKS: Intent = Intent {
    stems: "задач таск джоб прогресс готов выполн завершил завершен фонов очеред процесс запущ \
        статус результат долго task job progress ready done background running queue process \
        status result finish id",
    tools: &["task", "job"],
    helpers: &["health", "environment"],
};

const BACKUP: Intent = Intent {
    stems: "бэкап бекап бакап забэкап забекап резерв копи восстан снапшот снепшот снимок снимк архив \
        backup back restor snapshot archiv recover dump дамп",
    tools: &["backup", "restore", "snapshot"],
    helpers: &["search", "list_dashboard", "get_dashboard", "environment", "task"],
};

const ENVIRONMENTS: Intent = Intent {
    stems: "окруж сред стенд контур инстанс сервер подключен прод дев environ env stand instance \
        server stage staging prod dev connection",
    tools: &["environment", "env_"],
    helpers: &["health", "search"],
};

const DOCUMENTS: Intent = Intent {
    stems: "документ докумен описан опиши описать файл вложен таблиц запрос данн sql document \
        describ descript file attach table query data докс docs",
    tools: &["document", "describe", "dataset", "sql", "query"],
    helpers: FIND,
};
