//! `tests/documents.sh`: every document of a folder through the reader that workers use, against what other readers
//! found in it (`tests/documents/reference.py`). Prints a line for each and a table; fails when a document brings
//! its reader down, takes longer than it may, or when too few words come out.
#![expect(clippy::unwrap_used, reason = "what fails here is a failed test")]
#![expect(clippy::expect_used, reason = "what fails here is a failed test")]
mod score;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use contract::job::Locale;
use documents::extracted::{Extracted, Mark};
use documents::failure::Failure;
use documents::parent::Reader;
use futures_util::StreamExt as _;
use tests::place;

/// The references go no further.
const PAGES: u32 = 8;
/// Fewer words say nothing about quality.
const WORDS: usize = 5;
const CPU_MS: u64 = 2_000;
const MEMORY_BYTES: u64 = 256 << 20;

/// What a class of documents has to reach. The medians of PDF are the best that any engine reached when they were
/// chosen, of all documents and of Cyrillic ones; the means notice when a few get worse.
struct Wanted {
    class: &'static str,
    median: f64,
    mean: f64,
}

const WANTED: [Wanted; 4] = [
    Wanted { class: "pdf", median: 0.981, mean: 0.94 },
    Wanted { class: "pdf Cyrillic", median: 0.998, mean: 0.97 },
    Wanted { class: "workbook", median: 0.95, mean: 0.95 },
    Wanted { class: "table", median: 0.95, mean: 0.95 },
];

/// Folders of `tests/documents/fetch.sh`.
const SOURCES: [&str; 4] = ["ocrmypdf", "pypdf", "texlive-lang-cyrillic", "umya-spreadsheet"];

type References = HashMap<String, BTreeMap<String, String>>;

struct Line {
    path: String,
    class: &'static str,
    read: Result<Extracted, Failure>,
    wall: Duration,
    f1: Option<f64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let folder = PathBuf::from(std::env::args().nth(1).expect("corpus FOLDER"));
    let references = std::fs::read(folder.join("reference.json")).expect("reference.json");
    let references: References = serde_json::from_slice(&references).unwrap();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // The processor's time is what is measured, however little of it there is.
    let reader = Reader::new(place::target().join("extract-document"), &[], cores)
        .with_wall(Duration::from_secs(120));
    let lines = futures_util::stream::iter(documents_in(&folder))
        .map(|path| look(&reader, &folder, path, &references))
        .buffered(cores * 2);
    let lines: Vec<Line> = lines.inspect(print).collect().await;
    for source in SOURCES.iter().filter(|source| !folder.join(source).exists()) {
        println!("*** SKIPPED: the documents of {source}, which could not be fetched ***");
    }
    let broken: Vec<String> = lines.iter().flat_map(breaches).chain(table(&lines)).collect();
    for breach in &broken {
        println!("FAILED {breach}");
    }
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn documents_in(folder: &Path) -> Vec<PathBuf> {
    let within = |folder: &Path| {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut found: Vec<PathBuf> =
        within(folder).iter().filter(|path| path.is_dir()).flat_map(|path| within(path)).collect();
    found.retain(|path| !path.ends_with(".stamp"));
    found.sort();
    found
}

async fn look(reader: &Reader, folder: &Path, path: PathBuf, references: &References) -> Line {
    let bytes = tokio::fs::read(&path).await.unwrap();
    let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
    let start = std::time::Instant::now();
    let read = reader.read(&name, &bytes).await;
    let wall = start.elapsed();
    let text = read.as_ref().map(first_pages).unwrap_or_default();
    let others = references.get(&name);
    let texts = || others.into_iter().flat_map(BTreeMap::values).map(String::as_str);
    let class = class(&path, texts().next().unwrap_or_default());
    let is_cut = read.as_ref().is_ok_and(|read| read.cut.is_some());
    let upto = if is_cut { score::count(&text) } else { usize::MAX };
    // Nothing to find, nothing to miss.
    let f1 = texts()
        .filter(|other| score::count(other) >= WORDS)
        .map(|other| score::f1(&text, score::first(other, upto)))
        .max_by(f64::total_cmp);
    Line { path: name, class, read, wall, f1 }
}

/// What a person would read, without our marks: of a workbook, without the names of rows and columns.
fn first_pages(extracted: &Extracted) -> String {
    let is_first = |mark: &Mark| match mark {
        Mark::Page { number } => *number <= PAGES,
        Mark::Whole | Mark::Sheet { .. } => true,
    };
    let of_sheet = |text: &str| {
        let rows = text.lines().filter(|line| !line.starts_with(['\t', '(']));
        rows.map(|line| line.split_once('\t').map_or("", |(_, cells)| cells))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let sections = extracted.sections.iter().filter(|section| is_first(&section.mark));
    let texts = sections.map(|section| match section.mark {
        Mark::Sheet { .. } => of_sheet(&section.text),
        Mark::Page { .. } | Mark::Whole => section.text.clone(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn class(path: &Path, reference: &str) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("pdf") if score::is_cyrillic(reference) => "pdf Cyrillic",
        Some("pdf") => "pdf",
        Some("xlsx" | "xlsm") => "workbook",
        Some("csv" | "tsv") => "table",
        Some("json") => "json",
        Some(_) | None => "image",
    }
}

fn outcome(read: &Result<Extracted, Failure>) -> String {
    match read {
        Ok(read) => read.cut.map_or("whole".to_owned(), |why| format!("cut: {why:?}")),
        Err(Failure::WrongType(_)) => "WrongType".to_owned(),
        Err(failure) => format!("{failure:?}"),
    }
}

fn print(line: &Line) {
    let usage = line.read.as_ref().map(|read| read.usage).unwrap_or_default();
    let f1 = line.f1.map_or("    -".to_owned(), |f1| format!("{f1:.3}"));
    println!(
        "{:12} {f1} {:>5} ms cpu {:>5} ms {:>4} MiB  {:11} {}",
        line.class,
        usage.cpu_ms,
        line.wall.as_millis(),
        usage.peak_bytes >> 20,
        outcome(&line.read),
        line.path
    );
}

/// Real documents bring no reader down, and take no more than they may.
fn breaches(line: &Line) -> Vec<String> {
    let mut breaches = Vec::new();
    if matches!(line.read, Err(Failure::Crashed | Failure::OutOfMemory | Failure::TimedOut)) {
        breaches.push(format!("{}: {}", line.path, outcome(&line.read)));
    }
    if let Ok(read) = &line.read {
        if read.usage.cpu_ms > CPU_MS || read.usage.peak_bytes > MEMORY_BYTES {
            breaches.push(format!("{}: {:?}", line.path, read.usage));
        }
        if read.text(Locale::En).contains('\0') {
            breaches.push(format!("{}: NUL in its text", line.path));
        }
    }
    breaches
}

/// Prints the summary; returns the classes that are not good enough.
fn table(lines: &[Line]) -> Vec<String> {
    let mut classes: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in lines {
        classes.entry(line.class).or_default().push(line);
    }
    println!("\nclass        files  F1 of  median   mean   cpu p50   max ms  outcomes");
    let mut poor = Vec::new();
    for (class, lines) in &classes {
        let mut f1: Vec<f64> = lines.iter().filter_map(|line| line.f1).collect();
        let (median, mean) = (score::median(&mut f1), score::mean(&f1));
        let mut cpu: Vec<u64> = lines
            .iter()
            .filter_map(|l| l.read.as_ref().ok())
            .map(|read| read.usage.cpu_ms)
            .collect();
        cpu.sort_unstable();
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        for line in lines {
            *outcomes.entry(outcome(&line.read)).or_default() += 1;
        }
        println!(
            "{class:12} {:>5}  {:>5}  {median:.3}  {mean:.3}  {:>7}  {:>7}  {outcomes:?}",
            lines.len(),
            f1.len(),
            cpu.get(cpu.len() / 2).copied().unwrap_or_default(),
            cpu.last().copied().unwrap_or_default(),
        );
        if let Some(wanted) = WANTED.iter().find(|wanted| wanted.class == *class)
            && !f1.is_empty()
            && (median < wanted.median || mean < wanted.mean)
        {
            poor.push(format!(
                "{class}: median {median:.3} of {}, mean {mean:.3} of {}",
                wanted.median, wanted.mean
            ));
        }
    }
    poor
}
