use super::super::Writer;
use super::*;
use stockade_scratch::Folder;

const BUILDER: &[u8] = b"make";

#[test]
fn what_was_written_since_a_yes_is_changed_until_a_person_looks() {
    let folder = Folder::new();
    let (state, project) = (folder.path().join("state"), folder.path().join("project"));
    let file = folder.write("project/Makefile", "one");
    let waiting = |places: &[PathBuf]| Waiting::find(&state, &project, places).unwrap();
    let places = [project.clone()];
    let changed = |since: &Point| waiting(&places).since(since, &project);
    let start = last_yes(&state, &project, BUILDER);
    assert!(start == Point::default() && changed(&start).is_none());
    let note = |text: &str, of: &Path| {
        let before = Found::at(&file);
        let writer = Writer {
            decision: text.into(),
            act: Some("sed -i".into()),
            project: of.to_path_buf(),
            call: "open".into(),
            program: "sh".into(),
            at: 1,
        };
        Ledger::change(&state, |ledger| {
            ledger.note(&file, before, writer, 0);
            fs::write(&file, text)
        })
        .unwrap();
    };
    note("two", Path::new("/other"));
    let told = "`Makefile` has changes that nobody has approved (`sed -i` wrote it)";
    assert_eq!(changed(&start).unwrap().told, told);
    let first = changed(&start).unwrap().mark;
    keep_yes(&state, &project, BUILDER, &waiting(&places).point()).unwrap();
    let yes = last_yes(&state, &project, BUILDER);
    assert_eq!(changed(&yes), None);
    // Neither a yes for another builder nor for another project.
    assert_eq!(last_yes(&state, &project, b"npm"), start);
    assert_eq!(last_yes(&state, folder.path(), BUILDER), start);
    // Changes elsewhere concern only their own project.
    assert!(waiting(&[PathBuf::from("/elsewhere")]).since(&start, &project).is_none());
    note("three", &project);
    assert!(waiting(&[PathBuf::from("/elsewhere")]).since(&start, &project).is_some());
    assert_ne!(changed(&yes).unwrap().mark, first);
    Ledger::change(&state, |ledger| {
        ledger.looked(&file, Found::at(&file), false);
        Ok(())
    })
    .unwrap();
    // Whoever looked needs no question about it.
    assert!(changed(&yes).is_none() && changed(&start).is_none());
    note("four", &project);
    assert!(changed(&yes).is_some() && changed(&start).is_some());
    // The same bytes as at the beginning are no change.
    note("three", &project);
    assert!(changed(&start).is_none());
}

#[test]
fn changes_that_are_not_listed_are_changes() {
    let folder = Folder::new();
    let state = folder.path();
    let lose = |count: u64| {
        Ledger::change(state, |ledger| {
            ledger.lose(count);
            Ok(())
        })
        .unwrap();
    };
    let waiting = || Waiting::find(state, Path::new("/p"), &[]).unwrap();
    assert!(waiting().since(&Point::default(), Path::new("/p")).is_none());
    lose(1);
    assert!(waiting().since(&Point::default(), Path::new("/p")).is_some());
    let yes = waiting().point();
    assert!(waiting().since(&yes, Path::new("/p")).is_none());
    let looked = |ledger: &mut Ledger| {
        ledger.more = 0;
        Ok(())
    };
    Ledger::change(state, looked).unwrap();
    assert!(waiting().since(&Point::default(), Path::new("/p")).is_none());
    lose(1);
    assert!(waiting().since(&yes, Path::new("/p")).is_some());
}

#[test]
fn a_ledger_or_a_yes_that_cannot_be_read_allows_nothing() {
    let folder = Folder::new();
    let state = folder.path();
    let point = Point { lost: 3, ..Point::default() };
    keep_yes(state, Path::new("/p"), BUILDER, &point).unwrap();
    assert_eq!(last_yes(state, Path::new("/p"), BUILDER), point);
    fs::write(file(state, Path::new("/p"), BUILDER), "{").unwrap();
    assert_eq!(last_yes(state, Path::new("/p"), BUILDER), Point::default());
    folder.write("review/ledger.json", "{");
    assert!(Waiting::find(state, Path::new("/p"), &[]).is_err());
}
