//! `pdf-extract`, page by page: it panics by design, so each page is read behind `catch_unwind`, and what would make
//! it hang, overflow its stack or lose a page for no reason is taken out of the document first.
use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{
    ColorSpace, Dictionary, Document, MediaBox, Object, ObjectId, OutputDev, OutputError, Path,
    PlainTextOutput, Stream, Transform,
};

use crate::limits::Limits;
use crate::pdf::Unopened;

/// A page tree deeper than this is none.
const PARENTS: usize = 64;
/// Letter, as readers assume.
const MEDIA_BOX: [i64; 4] = [0, 0, 612, 792];

pub(super) struct First {
    document: Document,
    pages: Vec<ObjectId>,
    tree: ObjectId,
    text_bytes: usize,
}

impl First {
    pub(super) fn open(bytes: &[u8], limits: &Limits) -> Result<Self, Unopened> {
        let opened = catch_unwind(AssertUnwindSafe(|| load(bytes)));
        let mut document = opened.unwrap_or(Err(Unopened::Corrupt))?;
        let pages: Vec<ObjectId> = document.page_iter().take(limits.pages as usize + 1).collect();
        document.objects.values_mut().for_each(drop_image);
        for page in &pages {
            inherit(&mut document, *page);
        }
        let tree = plant(&mut document).ok_or(Unopened::Corrupt)?;
        break_cycles(&mut document, &pages);
        Ok(Self { document, pages, tree, text_bytes: limits.text_bytes })
    }

    pub(super) fn pages(&self) -> u32 {
        u32::try_from(self.pages.len()).unwrap_or(u32::MAX)
    }

    /// `None` if it can't be read.
    pub(super) fn page(&mut self, number: u32) -> Option<String> {
        let page = *self.pages.get(number.checked_sub(1)? as usize)?;
        // The engine walks the whole tree for every page: it is given a tree of one.
        if let Ok(tree) = self.document.get_dictionary_mut(self.tree) {
            tree.set("Kids", vec![Object::Reference(page)]);
        }
        let mut text = String::new();
        let read = catch_unwind(AssertUnwindSafe(|| {
            let mut output =
                Bounded { inner: PlainTextOutput::new(&mut text), room: self.text_bytes };
            pdf_extract::output_doc_page(&self.document, &mut output, 1)
        }));
        match read {
            Ok(Ok(())) => Some(text),
            // Full: more than this is cut anyway.
            Ok(Err(OutputError::FormatError(_))) => Some(text),
            Ok(Err(OutputError::IoError(_) | OutputError::PdfError(_))) | Err(_) => None,
        }
    }
}

fn load(bytes: &[u8]) -> Result<Document, Unopened> {
    let encrypted = |error: pdf_extract::Error| {
        let locked = matches!(
            error,
            pdf_extract::Error::Decryption(_) | pdf_extract::Error::InvalidPassword
        );
        if locked { Unopened::Encrypted } else { Unopened::Corrupt }
    };
    let mut document = Document::load_mem(bytes).map_err(encrypted)?;
    if document.is_encrypted() {
        document.decrypt("").map_err(encrypted)?;
    }
    Ok(document)
}

/// Pictures hold no text, and the engine would take their bytes for commands.
fn drop_image(object: &mut Object) {
    if let Object::Stream(stream) = object
        && stream.dict.get(b"Subtype").and_then(Object::as_name).is_ok_and(|name| name == b"Image")
    {
        *stream = Stream::new(stream.dict.clone(), Vec::new());
        stream.dict.remove(b"Filter");
        stream.dict.remove(b"DecodeParms");
    }
}

/// Writes into the page what it inherits, and cuts it from its parents: the engine follows them without end.
fn inherit(document: &mut Document, page: ObjectId) {
    let mut found = Dictionary::new();
    let mut seen = HashSet::new();
    let mut next = Some(page);
    while let Some(id) = next.filter(|id| seen.len() < PARENTS && seen.insert(*id)) {
        let Ok(node) = document.get_dictionary(id) else { break };
        for key in [b"Resources".as_slice(), b"MediaBox"] {
            if let Ok(value) = node.get(key)
                && !found.has(key)
            {
                found.set(key, value.clone());
            }
        }
        next = node.get(b"Parent").and_then(Object::as_reference).ok();
    }
    if !found
        .get_deref(b"MediaBox", document)
        .and_then(Object::as_array)
        .is_ok_and(|sides| sides.len() == 4)
    {
        found.set("MediaBox", MEDIA_BOX.map(Object::Integer).to_vec());
    }
    if let Ok(node) = document.get_dictionary_mut(page) {
        node.remove(b"Parent");
        // Not `extend`, which merges a value with the one that is there.
        for (key, value) in found {
            node.set(key, value);
        }
    }
}

/// A page tree of our own, in place of the document's.
fn plant(document: &mut Document) -> Option<ObjectId> {
    let tree = document.add_object(Dictionary::from_iter([
        ("Type", Object::Name(b"Pages".to_vec())),
        ("Count", Object::Integer(1)),
        ("Kids", Object::Array(Vec::new())),
    ]));
    document.catalog_mut().ok()?.set("Pages", tree);
    Some(tree)
}

/// Empties the forms that draw themselves, directly or through others.
fn break_cycles(document: &mut Document, pages: &[ObjectId]) {
    let mut done = BTreeSet::new();
    let mut guilty = BTreeSet::new();
    for page in pages {
        let mut path: Vec<(ObjectId, Vec<ObjectId>)> = vec![(*page, drawn(document, *page))];
        while let Some((node, rest)) = path.last_mut() {
            let node = *node;
            let Some(child) = rest.pop() else {
                done.insert(node);
                path.pop();
                continue;
            };
            if path.iter().any(|(open, _)| *open == child) {
                guilty.insert(child);
            } else if !done.contains(&child) {
                let drawn = drawn(document, child);
                path.push((child, drawn));
            }
        }
    }
    for id in guilty {
        if let Ok(Object::Stream(form)) = document.get_object_mut(id) {
            form.dict.remove(b"Filter");
            form.set_plain_content(Vec::new());
        }
    }
}

/// The forms that a page or a form has at hand.
fn drawn(document: &Document, id: ObjectId) -> Vec<ObjectId> {
    let Ok(object) = document.get_object(id) else { return Vec::new() };
    let dictionary = object.as_stream().map(|stream| &stream.dict).or_else(|_| object.as_dict());
    let resources =
        dictionary.and_then(|d| d.get_deref(b"Resources", document)).and_then(Object::as_dict);
    let forms = resources.and_then(|r| r.get_deref(b"XObject", document)).and_then(Object::as_dict);
    forms.map_or(Vec::new(), |forms| {
        forms.iter().filter_map(|(_, form)| form.as_reference().ok()).collect()
    })
}

/// Stops the engine when a page gives more than a whole file may.
struct Bounded<'a> {
    inner: PlainTextOutput<&'a mut String>,
    room: usize,
}

impl OutputDev for Bounded<'_> {
    fn begin_page(
        &mut self,
        number: u32,
        media_box: &MediaBox,
        art_box: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        self.inner.begin_page(number, media_box, art_box)
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        self.inner.end_page()
    }

    fn output_character(
        &mut self,
        transform: &Transform,
        width: f64,
        spacing: f64,
        font_size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        self.room =
            self.room.checked_sub(text.len()).ok_or(OutputError::FormatError(std::fmt::Error))?;
        self.inner.output_character(transform, width, spacing, font_size, text)
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.inner.begin_word()
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        self.inner.end_word()
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        self.inner.end_line()
    }

    fn stroke(
        &mut self,
        _: &Transform,
        _: &ColorSpace,
        _: &[f64],
        _: &Path,
    ) -> Result<(), OutputError> {
        Ok(())
    }

    fn fill(
        &mut self,
        _: &Transform,
        _: &ColorSpace,
        _: &[f64],
        _: &Path,
    ) -> Result<(), OutputError> {
        Ok(())
    }
}
