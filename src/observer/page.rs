//! Page tokens: where the next page of a series begins.

use serde::Serialize;
use throughline_parsers::text::Digest;

use super::token;

const PREFIX: &str = "tlp1.";
const SCHEMA: &str = "throughline.observer_page.v1";

/// The start of a page, bound to its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Page {
    schema: &'static str,
    #[serde(flatten)]
    series: Series,
    offset: usize,
    #[serde(serialize_with = "token::hex")]
    offset_prefix_sha256: Digest,
}

/// What one series of pages is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Series {
    #[serde(serialize_with = "token::hex")]
    project_sha256: Digest,
    #[serde(serialize_with = "token::hex")]
    after_sha256: Digest,
    #[serde(serialize_with = "token::hex")]
    through_sha256: Digest,
}

impl Series {
    /// The series between two cursors, given by their exact texts.
    pub fn new(project: Digest, after: &str, through: &str) -> Self {
        Self { project_sha256: project, after_sha256: Digest::of(after), through_sha256: Digest::of(through) }
    }

    /// The page that begins behind `offset` entries, which come to `prefix`.
    pub fn page(self, offset: usize, prefix: Digest) -> Page {
        Page { schema: SCHEMA, series: self, offset, offset_prefix_sha256: prefix }
    }

    /// Reads a token of this series; `None` for anything that [`Page::write`] would not write for it.
    pub fn read(self, token: &str) -> Option<Page> {
        let [offset, prefix] = token::fields(PREFIX, token, ["offset", "offset_prefix_sha256"])?;
        let page = self.page(offset.whole()?.try_into().ok()?, prefix.digest()?);
        (page.write() == token).then_some(page)
    }
}

impl Page {
    /// The page as a token.
    pub fn write(&self) -> String {
        token::write(PREFIX, self)
    }

    /// How many entries of the series stand before it.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The digest over these entries.
    pub fn prefix(&self) -> Digest {
        self.offset_prefix_sha256
    }
}
