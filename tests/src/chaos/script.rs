//! What is said and done in a run: the model's side, and the user's decisions.
use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::dice::Dice;
use crate::llm::reply::Reply;

/// The model's answers step by step; the run goes on after each card as decided.
#[derive(Clone, Debug)]
pub struct Script {
    pub name: String,
    pub steps: Vec<Step>,
    /// Action of each card in turn; `confirm` when none is left.
    pub decisions: Vec<&'static str>,
    /// Additional configuration of the workers.
    pub settings: Vec<(&'static str, &'static str)>,
}

/// One answer of the model. Without a call it is the last one.
#[derive(Clone, Debug)]
pub struct Step {
    /// Each word is a token, and an event of its own.
    pub words: Vec<&'static str>,
    pub calls: Vec<(&'static str, Value)>,
}

const SEARCH: &str = "search_dashboards";
const HEALTH: &str = "get_health_summary";
const DEPLOY: &str = "deploy_dashboard";
const MAINTENANCE: &str = "start_maintenance";
const WORDS: [&str; 8] = ["ищу", "дашборд", "and", "then", "готово", "prod", "ещё", "всё"];

/// The names that [`Script::named`] knows.
pub const NAMES: [&str; 6] = ["card", "idempotent", "once", "two-on-a-card", "deny", "long"];

impl Script {
    pub fn named(name: &str) -> Option<Script> {
        let reads = || vec![(SEARCH, json!({"search": "sales"})), (HEALTH, json!({}))];
        let deploy = |id: &str| (DEPLOY, json!({"dashboard_id": id, "environment_id": "prod"}));
        let last = || step(&["Всё", "готово."], Vec::new());
        let start = || step(&["Смотрю", "дашборды."], reads());
        let (steps, decisions, settings) = match name {
            "card" => (
                vec![start(), step(&["Нашёл.", "Выкладываю."], vec![deploy("42")]), last()],
                vec!["confirm"],
                Vec::new(),
            ),
            "idempotent" => (
                vec![step(&["Выкладываю."], vec![deploy("42")]), last()],
                vec!["confirm"],
                vec![("IDEMPOTENT_TOOLS", DEPLOY)],
            ),
            "once" => (
                vec![step(&["Начинаю."], vec![maintenance(), (HEALTH, json!({}))]), last()],
                Vec::new(),
                Vec::new(),
            ),
            "two-on-a-card" => (
                vec![step(&["Обе."], vec![deploy("42"), deploy("43")]), last()],
                vec!["confirm"],
                Vec::new(),
            ),
            "deny" => {
                (vec![step(&["Выкладываю."], vec![deploy("42")]), last()], vec!["deny"], Vec::new())
            }
            "long" => (vec![step(&WORDS.repeat(5), Vec::new())], Vec::new(), Vec::new()),
            _ => return None,
        };
        Some(Script { name: name.to_owned(), steps, decisions, settings })
    }

    /// Any mixture; the same for the same dice.
    pub fn random(dice: &mut Dice) -> Script {
        let mut steps = Vec::new();
        for _ in 0..dice.below(4) {
            let calls = (0..=dice.below(3)).map(|_| random_call(dice)).collect();
            steps.push(Step { words: random_words(dice), calls });
        }
        let mut words = random_words(dice);
        words.push("Конец.");
        steps.push(Step { words, calls: Vec::new() });
        let decisions =
            (0..4).map(|_| if dice.below(4) == 0 { "deny" } else { "confirm" }).collect();
        let settings =
            if dice.below(2) == 0 { vec![("IDEMPOTENT_TOOLS", DEPLOY)] } else { Vec::new() };
        Script { name: "random".to_owned(), steps, decisions, settings }
    }

    pub fn decision(&self, card: usize) -> &'static str {
        self.decisions.get(card).copied().unwrap_or("confirm")
    }

    /// Whether the backend's answer to a repeated call of this tool is the first one's.
    pub fn is_idempotent(&self, tool: &str) -> bool {
        self.settings.iter().any(|(name, value)| *name == "IDEMPOTENT_TOOLS" && *value == tool)
    }
}

fn step(words: &[&'static str], calls: Vec<(&'static str, Value)>) -> Step {
    Step { words: words.to_vec(), calls }
}

fn maintenance() -> (&'static str, Value) {
    (MAINTENANCE, json!({"environment_id": "prod", "message": "works", "duration_minutes": 5}))
}

fn random_words(dice: &mut Dice) -> Vec<&'static str> {
    (0..dice.below(6)).map(|_| WORDS[dice.below(WORDS.len())]).collect()
}

fn random_call(dice: &mut Dice) -> (&'static str, Value) {
    let dashboard = ["42", "43"][dice.below(2)];
    match dice.below(5) {
        0 => (SEARCH, json!({"search": dashboard})),
        1 => (HEALTH, json!({})),
        2 => ("get_dashboard", json!({"dashboard_id": dashboard})),
        3 => maintenance(),
        _ => (DEPLOY, json!({"dashboard_id": dashboard, "environment_id": "prod"})),
    }
}

/// The model of one run. Like a real one it never says the same thing twice: every word carries how often
/// this step was asked for, and calls get fresh ids.
pub struct Actor {
    script: Script,
    asked: Mutex<HashMap<usize, usize>>,
}

impl Actor {
    pub fn new(script: Script) -> Self {
        Self { script, asked: Mutex::default() }
    }

    /// What it answers depends on how far the conversation is, and not on how often it was asked.
    pub fn answer(&self, request: &Value) -> Reply {
        let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let calls =
            |message: &&Value| message["tool_calls"].as_array().is_some_and(|c| !c.is_empty());
        let done = messages.iter().filter(calls).count().min(self.script.steps.len() - 1);
        let asked = {
            let mut asked = self.asked.lock().unwrap();
            let count = asked.entry(done).or_default();
            *count += 1;
            *count
        };
        let step = &self.script.steps[done];
        let mut reply = Reply::silence();
        for word in &step.words {
            reply = reply.and_delta(json!({"content": format!("{word}{}{asked} ", MARK)}));
        }
        for (tool, arguments) in &step.calls {
            reply = reply.and_call(tool, arguments.clone());
        }
        reply
    }
}

/// Between a word and the number of its asking.
const MARK: char = '·';

/// The text without the numbers, and those numbers word by word.
pub fn unmark(text: &str) -> (String, Vec<usize>) {
    let mut numbers = Vec::new();
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let (bare, number) = word.rsplit_once(MARK).unwrap_or((word, ""));
        numbers.extend(number.parse::<usize>());
        words.push(bare);
    }
    (words.join(" "), numbers)
}
