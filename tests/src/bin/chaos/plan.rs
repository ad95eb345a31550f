//! What the options mean.
use tests::chaos::fault::{Fault, Point};
use tests::chaos::matrix::Reference;
use tests::chaos::script::{self, Script};

pub fn faults(name: &str) -> Result<Vec<Fault>, String> {
    if name == "all" { Ok(Fault::ALL.to_vec()) } else { name.parse().map(|fault| vec![fault]) }
}

pub fn scripts(name: Option<&str>) -> Result<Vec<Script>, String> {
    let names = name.map_or_else(|| script::NAMES.to_vec(), |name| vec![name]);
    let find = |name: &str| {
        let problem = || format!("no script `{name}`; there are: {}", script::NAMES.join(", "));
        Script::named(name).ok_or_else(problem)
    };
    names.into_iter().map(find).collect()
}

/// All points, or the one of this number or name.
pub fn points(reference: &Reference, at: Option<&str>) -> Result<Vec<Point>, String> {
    let Some(at) = at else { return Ok(reference.points.clone()) };
    let number: Option<usize> = at.parse().ok();
    let mut numbered = reference.points.iter().zip(1..);
    let found = numbered.find(|(point, index)| Some(*index) == number || point.to_string() == at);
    let problem = || format!("`{}` has no message `{at}`; see --list", reference.script.name);
    found.map(|(point, _)| vec![point.clone()]).ok_or_else(problem)
}

pub fn list(reference: &Reference) {
    println!("\nscript {}", reference.script.name);
    for (number, point) in (1..).zip(&reference.points) {
        println!("{number:>5}  {point}");
    }
    let outcome = &reference.outcome;
    for (what, lines) in [
        ("screen", &outcome.screen),
        ("history", &outcome.history),
        ("effects", &outcome.effects),
        ("audit", &outcome.audit),
    ] {
        println!("  {what}");
        for line in lines {
            let line: String = line.chars().take(160).collect();
            println!("    {line}");
        }
    }
}
