//! A report as one page that needs nothing else: no network, no other file.

use super::report::Report;

/// The page, in which the report takes the place of this.
const PAGE: &str = include_str!("page.html");
const PLACE: &str = "{\"report\":\"here\"}";

/// The page that shows a report.
pub fn page(report: &Report) -> String {
    // Within a script element nothing ends it and nothing begins another one.
    PAGE.replacen(PLACE, &report.to_json().replace('<', "\\u003c"), 1)
}
