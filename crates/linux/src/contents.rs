//! What routes are, each kept once and counted: a full table has few.

use crate::route::Route;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of a content. The top bit is the user's.
pub type ContentId = u32;

#[derive(Debug)]
struct Slot {
    route: Arc<Route>,
    users: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Contents {
    numbers: HashMap<Arc<Route>, ContentId>,
    slots: Vec<Slot>,
    free: Vec<ContentId>,
}

impl Contents {
    /// The number of a content, which has one user more.
    pub fn take(&mut self, route: &Route) -> ContentId {
        if let Some(id) = self.numbers.get(route) {
            self.slots[*id as usize].users += 1;
            return *id;
        }
        let slot = Slot { route: Arc::new(route.clone()), users: 1 };
        let route = Arc::clone(&slot.route);
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as ContentId - 1
            }
        };
        self.numbers.insert(route, id);
        id
    }

    /// Takes one user away.
    pub fn release(&mut self, id: ContentId) {
        let slot = &mut self.slots[id as usize];
        slot.users -= 1;
        if slot.users == 0 {
            if self.numbers.get(&slot.route) == Some(&id) {
                self.numbers.remove(&slot.route);
            }
            self.free.push(id);
        }
    }

    /// What has a number.
    pub fn get(&self, id: ContentId) -> &Arc<Route> {
        &self.slots[id as usize].route
    }

    /// Has a number stand for something else, for all that use it; what it stood for.
    pub fn replace(&mut self, id: ContentId, route: Route) -> Arc<Route> {
        let new = Arc::new(route);
        let old = std::mem::replace(&mut self.slots[id as usize].route, Arc::clone(&new));
        if self.numbers.get(&old) == Some(&id) {
            self.numbers.remove(&old);
        }
        // Another number may stand for the same: both stay.
        self.numbers.entry(new).or_insert(id);
        old
    }

    /// Those in use.
    pub fn iter(&self) -> impl Iterator<Item = (ContentId, &Arc<Route>)> {
        self.slots.iter().enumerate().filter(|(_, s)| s.users > 0).map(|(n, s)| (n as ContentId, &s.route))
    }

    /// How many are in use.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
