//! The envelope of both kinds of tokens: a prefix, then compact JSON in base64url without padding.
//!
//! Only one spelling of a value is a token, so a token is read by writing what it seems to say and comparing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use throughline_parsers::json::{self, MAX_WHOLE, Value};
use throughline_parsers::text::{Digest, utf16_len};

/// No token is longer, in UTF-16 units.
const MAX_UNITS: usize = 4096;

/// The token that says this.
pub fn write(prefix: &str, value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).expect("a struct of strings and numbers can be written");
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(json))
}

/// The values of the named keys in a token; `None` when it is not spelled like one. The caller has to write the token
/// again and compare.
pub fn fields<const N: usize>(prefix: &str, token: &str, keys: [&str; N]) -> Option<[Field; N]> {
    if utf16_len(token) > MAX_UNITS {
        return None;
    }
    let json = URL_SAFE_NO_PAD.decode(token.strip_prefix(prefix)?).ok()?;
    let values = json::document(&json).ok()?.object()?.fields(keys);
    let mut fields = [const { Field::Null }; N];
    for (field, value) in fields.iter_mut().zip(values) {
        *field = match value? {
            Value::Null => Field::Null,
            Value::String(text) => Field::Text(text.decode().into_owned()),
            Value::Number(number) => Field::Whole(number.integer().filter(|n| (0..=MAX_WHOLE).contains(n))?),
            _ => return None,
        };
    }
    Some(fields)
}

/// What a token can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// `null`
    Null,
    /// A string.
    Text(String),
    /// A whole number from 0.
    Whole(i64),
}

impl Field {
    /// The digest that is spelled here.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::Text(text) => Digest::from_hex(text),
            _ => None,
        }
    }

    /// The whole number.
    pub fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(n) => Some(*n),
            _ => None,
        }
    }
}

/// Writes a digest as its hex digits.
pub fn hex<S: serde::Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(digest)
}
