//! The files and folders that a text expects: without them redirections and `cd` fail, and what is behind them does
//! not run.

use stockade_parser::{CommandTree, Word};

/// Files and folders that are made in the home before a text runs, relative to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scenery {
    /// Folders.
    pub folders: Vec<Vec<u8>>,
    /// Empty files.
    pub files: Vec<Vec<u8>>,
}

impl Scenery {
    /// Returns what the text of `tree` expects: files that redirections read, folders of those that they write, and folders
    /// that it goes to.
    pub fn of(tree: &CommandTree) -> Scenery {
        let exact = |word: &Word| word.exact().filter(|path| is_inside(path)).map(<[u8]>::to_vec);
        let files: Vec<Vec<u8>> =
            tree.reads().iter().filter_map(|target| exact(&target.word)).collect();
        let written = tree.writes().iter().filter_map(|target| exact(&target.word));
        let parents = written.chain(files.iter().cloned());
        let parents = parents.filter_map(|path| {
            let slash = path.iter().rposition(|byte| *byte == b'/')?;
            Some(path[..slash].to_vec())
        });
        let moves = tree.commands().iter().filter(|command| {
            let name = command.words.first().and_then(Word::exact);
            matches!(name, Some(b"cd" | b"pushd"))
        });
        let moves = moves.filter_map(|command| exact(command.words.get(1)?));
        Scenery { folders: moves.chain(parents).collect(), files }
    }

    /// Returns the scenery as bytes for the room.
    pub fn encode(&self) -> Vec<u8> {
        let line = |kind: u8, path: &Vec<u8>| [&[kind], path.as_slice(), &[0]].concat();
        let folders = self.folders.iter().map(|path| line(b'd', path));
        folders.chain(self.files.iter().map(|path| line(b'f', path))).flatten().collect()
    }

    /// Reads what [`Scenery::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Scenery {
        let mut scenery = Scenery::default();
        for line in bytes.split(|byte| *byte == 0) {
            match line.split_first() {
                Some((b'd', path)) => scenery.folders.push(path.to_vec()),
                Some((_, path)) => scenery.files.push(path.to_vec()),
                None => {}
            }
        }
        scenery
    }
}

/// Says whether a path stays in the folder that it starts from.
fn is_inside(path: &[u8]) -> bool {
    !path.is_empty()
        && !path.starts_with(b"/")
        && !path.contains(&0)
        && path.split(|byte| *byte == b'/').all(|part| part != b"..")
}
