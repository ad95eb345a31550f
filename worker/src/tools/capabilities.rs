//! What the assistant can do, told from the registry itself.
use agent::tool::SideEffect;
use contract::job::Locale;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Area, Plan, Registry, Tool};

/// Lists what you can do for the user, with a word on what needs a confirmation. Use it when the user asks what you
/// can do, or for help.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowCapabilities {
    /// Only this area.
    #[serde(default)]
    area: Option<Area>,
}

impl Tool for ShowCapabilities {
    const NAME: &'static str = "show_capabilities";
    const AREA: Area = Area::Help;
    const TITLE: (&'static str, &'static str) = ("Tell what I can do", "Рассказать, что я умею");
    const EFFECT: SideEffect = SideEffect::Read;

    fn plan(self) -> Plan {
        Plan::Capabilities { area: self.area }
    }
}

impl Registry {
    /// Every tool of the area, in the order of the registry.
    pub(super) fn capabilities(&self, locale: Locale, area: Option<Area>) -> Value {
        let shown = self.entries.iter().filter(|entry| area.is_none_or(|area| area == entry.area));
        let capabilities: Vec<Value> = shown
            .map(|entry| {
                let (en, ru) = entry.title;
                let title = match locale {
                    Locale::En => en,
                    Locale::Ru => ru,
                };
                let changes =
                    self.spec(entry.name).is_some_and(|spec| spec.effect != SideEffect::Read);
                json!({
                    "tool": entry.name,
                    "title": title,
                    "changes_something": changes,
                    "needs_confirmation": self.danger(entry.name),
                })
            })
            .collect();
        let note = match locale {
            Locale::En => "Tools marked needs_confirmation ask the user before anything happens.",
            Locale::Ru => {
                "Инструменты с пометкой needs_confirmation спрашивают пользователя, прежде чем что-либо сделать."
            }
        };
        json!({ "capabilities": capabilities, "note": note })
    }
}
