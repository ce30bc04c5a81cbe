//! Words that mean something else, or nothing, here than on another router's command line.

use crate::Registry;

impl<C> Registry<C> {
    /// Tells of commands of another router that operators know and that are not here, each as its keywords in full. Their
    /// words are never taken for abbreviations: `set l2 learn` is not read as `set l2 learn-limit` when `set l2 learn` is
    /// among them.
    #[must_use]
    pub fn elsewhere(mut self, commands: &[&str]) -> Self {
        for command in commands {
            let ends = command.match_indices(' ').map(|(at, _)| at).chain([command.len()]);
            let parts = ends.filter_map(|end| command.get(..end)).map(str::to_owned);
            self.program.elsewhere.extend(parts);
        }
        self
    }
}
