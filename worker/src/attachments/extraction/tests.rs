use contract::file_type::{Foreign, Refused};

use super::*;

fn read(kind: FileType, sections: &[(Mark, &str)]) -> Content {
    let part = |(mark, text): &(Mark, &str)| Part { mark: mark.clone(), text: (*text).to_owned() };
    Content {
        kind,
        sections: sections.iter().map(part).collect(),
        cut: None,
        notes: vec![],
        picture: false,
    }
}

fn told(
    extraction: &Extraction,
    takes_pictures: bool,
    cut: bool,
    locale: Locale,
) -> Vec<(String, String)> {
    let event = |event| {
        let Event::Warning { code, detail } = event else { panic!("{event:?}") };
        (code, detail)
    };
    extraction.warnings("a.pdf", takes_pictures, cut, locale).into_iter().map(event).collect()
}

#[test]
fn what_was_stored_comes_back() {
    let sheet = Mark::Sheet { name: "Итоги".to_owned(), hidden: true };
    let mut content = read(FileType::Xlsx, &[(sheet, "1\t2"), (Mark::Whole, "x")]);
    content.cut = Some(Why::Cells);
    content.notes = vec![Note::SheetsUnread { sheets: 2 }];
    let wrong = Failure::WrongType(Refused::Content { found: Foreign::Program });
    for extraction in [
        Extraction::Read(content),
        Extraction::Failed { failure: Failure::NoText },
        Extraction::Failed { failure: wrong },
        Extraction::Gone,
    ] {
        assert_eq!(Extraction::parse(extraction.render().unwrap()), extraction);
    }
    let later = serde_json::json!({ "outcome": "of_a_later_release" });
    assert_eq!(Extraction::parse(later), Extraction::Failed { failure: Failure::Crashed });
}

#[test]
fn every_failure_has_a_face_for_user_and_model() {
    let wrong = Failure::WrongType(Refused::Content { found: Foreign::Program });
    let failures = [
        (Failure::NoText, "PDF_NO_TEXT"),
        (Failure::Encrypted, "FILE_ENCRYPTED"),
        (Failure::Corrupt, "FILE_CORRUPT"),
        (Failure::TooLarge, "FILE_TOO_LARGE_INSIDE"),
        (Failure::TimedOut, "FILE_TOO_SLOW"),
        (wrong, "FILE_TYPE"),
        (Failure::OutOfMemory, "FILE_TOO_COMPLEX"),
        (Failure::Crashed, "FILE_UNREADABLE"),
    ];
    let mut all: Vec<(Extraction, &str)> =
        failures.map(|(failure, code)| (Extraction::Failed { failure }, code)).into();
    all.push((Extraction::Gone, "FILE_EXPIRED"));
    all.push((Extraction::Unavailable, "FILE_UNAVAILABLE"));
    for (extraction, code) in all {
        for (locale, begins) in [(Locale::Ru, "Файл «a.pdf»: "), (Locale::En, "File \"a.pdf\": ")]
        {
            let told = told(&extraction, false, false, locale);
            assert_eq!((told.len(), told[0].0.as_str()), (1, code));
            assert!(told[0].1.starts_with(begins), "{told:?}");
        }
        let document = extraction.document("a.pdf", false, None, Locale::Ru);
        assert!(document.notes[0].starts_with("Nothing of this file is known. "), "{document:?}");
    }
}

#[test]
fn a_cut_is_told_once() {
    let mut content = read(FileType::Csv, &[(Mark::Whole, "a")]);
    let code =
        |told: Vec<(String, String)>| told.into_iter().map(|(code, _)| code).collect::<Vec<_>>();
    let extraction = Extraction::Read(content.clone());
    assert_eq!(code(told(&extraction, false, false, Locale::En)), [""; 0]);
    assert_eq!(code(told(&extraction, false, true, Locale::En)), ["FILE_CUT"]);
    content.cut = Some(Why::Text);
    content.notes = vec![Note::PagesWithoutText { pages: 2 }];
    let extraction = Extraction::Read(content);
    assert_eq!(code(told(&extraction, false, true, Locale::Ru)), ["FILE_CUT", "FILE_INCOMPLETE"]);
    assert_eq!(extraction.document("a", false, None, Locale::En).notes.len(), 2);
}

#[test]
fn a_picture_is_seen_or_said_to_be_unseen() {
    let mut content = read(FileType::Png, &[(Mark::Whole, "PNG image, 8 x 8 pixels, 99 bytes")]);
    content.picture = true;
    let picture = Extraction::Read(content);
    assert!(picture.is_picture());
    assert_eq!(told(&picture, true, false, Locale::Ru), []);
    assert_eq!(told(&picture, false, false, Locale::Ru)[0].0, "IMAGE_NOT_SEEN");
    let notes = |place| picture.document("a.png", false, place, Locale::Ru).notes;
    assert_eq!(notes(Some(1)), ["This is picture 2 of this message."]);
    assert!(notes(None)[0].starts_with("You can't see this picture"));
}

#[test]
fn marks_speak_the_users_language() {
    let sections = [
        (Mark::Page { number: 2 }, "text"),
        (Mark::Sheet { name: "Q1".to_owned(), hidden: true }, "1"),
    ];
    let document =
        Extraction::Read(read(FileType::Xlsx, &sections)).document("a", true, None, Locale::Ru);
    let marks: Vec<_> = document.sections.iter().filter_map(|s| s.mark.clone()).collect();
    assert_eq!(marks, ["страница 2", "лист «Q1» (скрытый)"]);
    assert!(document.earlier && document.spread);
}
