//! The folder of kept configurations, as a plan looks at it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use control::saved::Folder;

#[test]
fn what_has_no_room_is_known_before() {
    let path =
        std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{}", std::process::id()));
    let folder = Folder::open(&path).unwrap();
    assert_eq!(folder.would_refuse(1000), None);
    let why = folder.would_refuse(1 << 60).unwrap();
    let words = [path.to_str().unwrap(), ": it may not have room: ", " bytes are free there"];
    assert!(words.iter().all(|w| why.contains(w)), "{why}");
    assert!(std::fs::read_dir(&path).unwrap().next().is_none(), "nothing was written");
    drop(folder);
    std::fs::remove_dir(&path).unwrap();
    // None of the names is there any more.
    let gone = Folder::open(&path).unwrap();
    std::fs::remove_dir(&path).unwrap();
    assert!(gone.would_refuse(1).unwrap().contains("No such file"));
}
