//! `unpdf`: sequential, for its thread pool would be another process's worth of stacks in the child.
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use unpdf::{
    ErrorKind, ErrorMode, PageSelection, PageStreamOptions, ParseEvent, ParseOptions, PdfParser,
};

use crate::output::Stop;
use crate::pdf::Unopened;

pub(super) struct Second {
    parser: PdfParser,
}

impl Second {
    pub(super) fn open(bytes: &[u8]) -> Result<Self, Unopened> {
        let options = ParseOptions::new().lenient().sequential();
        let opened =
            catch_unwind(AssertUnwindSafe(|| PdfParser::from_bytes_with_options(bytes, options)));
        match opened {
            Ok(Ok(parser)) => Ok(Self { parser }),
            Ok(Err(error))
                if matches!(error.kind(), ErrorKind::Encrypted | ErrorKind::InvalidPassword) =>
            {
                Err(Unopened::Encrypted)
            }
            Ok(Err(_)) | Err(_) => Err(Unopened::Corrupt),
        }
    }

    pub(super) fn pages(&self) -> u32 {
        self.parser.page_count()
    }

    /// Calls `each` with every page up to `last`, in order, with `None` for those it can't read.
    pub(super) fn each_page(
        &self,
        last: u32,
        each: &mut dyn FnMut(u32, Option<String>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut next = 1;
        while next <= last {
            let mut stopped = None;
            let _ = catch_unwind(AssertUnwindSafe(|| {
                self.parser.for_each_page(options(next, last), |event| {
                    let (number, text) = match event {
                        ParseEvent::PageParsed(page) => (page.number, Some(page.plain_text())),
                        ParseEvent::PageFailed { page, .. } => (page, None),
                        ParseEvent::DocumentStart { .. }
                        | ParseEvent::Progress { .. }
                        | ParseEvent::DocumentEnd { .. } => return ControlFlow::Continue(()),
                    };
                    match (next..number)
                        .try_for_each(|missing| each(missing, None))
                        .and_then(|()| each(number, text))
                    {
                        Ok(()) => {
                            next = number + 1;
                            ControlFlow::Continue(())
                        }
                        Err(stop) => {
                            stopped = Some(stop);
                            ControlFlow::Break(())
                        }
                    }
                })
            }));
            if let Some(stop) = stopped {
                return Err(stop);
            }
            // It gave up at this page: go on behind it.
            if next <= last {
                each(next, None)?;
                next += 1;
            }
        }
        Ok(())
    }
}

/// Not by `default()`, which starts the thread pool to count its threads.
fn options(first: u32, last: u32) -> PageStreamOptions {
    PageStreamOptions {
        error_mode: ErrorMode::Lenient,
        extract_text: true,
        extract_resources: false,
        min_image_dimension: 64,
        pages: PageSelection::Range(first..=last),
        password: None,
        parallel: false,
        suppress_low_confidence_ocr: true,
        window_size: 1,
        emit_progress_every: u32::MAX,
    }
}
