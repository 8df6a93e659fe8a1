//! Parser for the JSON in this crate, which is valid and stays in memory for the whole run.

use std::borrow::Cow;

type Text = Cow<'static, str>;

/// A JSON value. Numbers keep their text, so they are not rounded.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(&'static str),
    Text(Text),
    List(Vec<Json>),
    Object(Vec<(Text, Json)>),
}

impl Json {
    /// Returns the field if this value is an object that contains it.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.fields()
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// Returns the fields of an object, or an empty slice for other values.
    pub fn fields(&self) -> &[(Text, Json)] {
        if let Json::Object(fields) = self {
            fields
        } else {
            &[]
        }
    }

    /// Returns the items of a list, or an empty slice for other values.
    pub fn items(&self) -> &[Json] {
        if let Json::List(items) = self {
            items
        } else {
            &[]
        }
    }

    /// Returns the string if this value is a string.
    pub fn text(&self) -> Option<&str> {
        if let Json::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// Returns the number if this value is an integer from 0 to 2^64 - 1.
    pub fn number(&self) -> Option<u64> {
        if let Json::Number(digits) = self {
            digits.parse().ok()
        } else {
            None
        }
    }

    /// Parses a document.
    pub(crate) fn read(text: &'static str) -> Json {
        Reader { text, at: 0 }.value()
    }
}

struct Reader {
    text: &'static str,
    at: usize,
}

impl Reader {
    /// Skips whitespace, commas and colons, and consumes the next byte.
    fn next(&mut self) -> u8 {
        while matches!(self.text.as_bytes()[self.at], b' ' | b'\n' | b',' | b':') {
            self.at += 1;
        }
        self.at += 1;
        self.text.as_bytes()[self.at - 1]
    }

    fn value(&mut self) -> Json {
        let first = self.next();
        self.value_from(first)
    }

    fn value_from(&mut self, first: u8) -> Json {
        match first {
            b'{' => {
                let mut fields = Vec::new();
                while self.next() == b'"' {
                    let name = self.string();
                    fields.push((name, self.value()));
                }
                Json::Object(fields)
            }
            b'[' => {
                let mut items = Vec::new();
                loop {
                    match self.next() {
                        b']' => return Json::List(items),
                        first => items.push(self.value_from(first)),
                    }
                }
            }
            b'"' => Json::Text(self.string()),
            _ => {
                let rest = &self.text[self.at - 1..];
                let word = &rest[..rest.find([',', ']', '}', '\n']).unwrap_or(rest.len())];
                self.at += word.len() - 1;
                match word {
                    "null" => Json::Null,
                    "true" | "false" => Json::Bool(word == "true"),
                    digits => Json::Number(digits),
                }
            }
        }
    }

    /// Parses a string after its opening quotation mark.
    fn string(&mut self) -> Text {
        let rest = &self.text[self.at..];
        let end = rest.find(['"', '\\']).unwrap();
        if rest.as_bytes()[end] == b'"' {
            self.at += end + 1;
            return Cow::Borrowed(&rest[..end]);
        }
        let (mut out, mut chars) = (String::new(), rest.chars());
        loop {
            match chars.next().unwrap() {
                '"' => break,
                '\\' => out.push(match chars.next().unwrap() {
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'u' => {
                        let digits: String = chars.by_ref().take(4).collect();
                        char::from_u32(u32::from_str_radix(&digits, 16).unwrap()).unwrap()
                    }
                    other => other,
                }),
                other => out.push(other),
            }
        }
        self.at += rest.len() - chars.as_str().len();
        Cow::Owned(out)
    }
}
