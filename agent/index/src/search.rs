//! Sessions by words.

use stockade_session::{Found, Here, Nearness, Store, nearness};

use crate::database::Index;
use crate::error::Error;

/// Most texts with the words that are looked at, the best first.
const MOST: usize = 2_000;

/// A session in which the words stand.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The session.
    pub found: Found,
    /// Kind and number or path of the text that fits best.
    pub source: (String, String),
    /// The words with those around them.
    pub snippet: String,
    /// How near the session is to here.
    pub near: Nearness,
    /// Higher is better.
    pub score: f64,
    /// How many of its texts have the words.
    pub texts: usize,
}

/// Returns how much more a session counts that is near.
fn weight(near: Nearness) -> f64 {
    match near {
        Nearness::Branch => 3.0,
        Nearness::Repository | Nearness::Root => 2.5,
        Nearness::Directory => 2.0,
        Nearness::Other => 1.0,
    }
}

/// Returns a query that has each word as it is: what FTS5 would take for an operator is a word as well.
fn query(words: &[String]) -> Option<String> {
    let parts = words.iter().flat_map(|words| words.split_whitespace());
    let parts = parts.filter(|word| word.chars().any(char::is_alphanumeric));
    let quoted: Vec<String> =
        parts.map(|word| format!("\"{}\"", word.replace('"', "\"\"").replace('\0', ""))).collect();
    (!quoted.is_empty()).then(|| quoted.join(" "))
}

impl Index {
    /// Finds sessions of the store that have all words in one text, the best first: by how well they fit, and by how near
    /// the session is to here. A row about a session that is not there is left out.
    ///
    /// # Errors
    ///
    /// There are no words, or the database cannot be read.
    pub fn search(
        &self,
        store: &Store,
        words: &[String],
        here: &Here,
        most: usize,
    ) -> Result<Vec<Hit>, Error> {
        let query = query(words).ok_or(Error::NoWords)?;
        let sql = "SELECT session_id, source_type, source_id, \
            snippet(search_index, 0, '', '', '…', 16), bm25(search_index) \
            FROM search_index WHERE search_index MATCH ?1 ORDER BY rank LIMIT ?2";
        let failed = self.failed();
        let mut statement = self.connection.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map((query, i64::try_from(MOST).unwrap_or(i64::MAX)), |row| {
            let text = |at: usize| row.get::<_, String>(at);
            Ok((text(0)?, (text(1)?, text(2)?), text(3)?, row.get::<_, f64>(4)?))
        });
        let mut hits: Vec<Hit> = Vec::new();
        for row in rows.map_err(&failed)? {
            let (id, source, snippet, rank) = row.map_err(&failed)?;
            if let Some(hit) = hits.iter_mut().find(|hit| hit.found.id == id) {
                hit.texts += 1; // the best text came first
                continue;
            }
            // The folder tells whether there is such a session, and where it works.
            let Some(found) = store.find(&id).ok().filter(|found| found.id == id) else { continue };
            let near = nearness(&found.workspace, here);
            // The smaller a rank is, the better it fits (FTS5, section 5.1.1).
            let score = -rank * weight(near);
            hits.push(Hit { found, source, snippet, near, score, texts: 1 });
        }
        hits.sort_by(|one, other| {
            let by_score = other.score.total_cmp(&one.score);
            by_score
                .then(one.near.cmp(&other.near))
                .then(other.found.written.cmp(&one.found.written))
        });
        hits.truncate(most);
        Ok(hits)
    }
}
