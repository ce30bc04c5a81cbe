//! Counters.

use std::time::Duration;

use tokio_stream::{Stream, StreamExt};

use crate::v1::counters_client::CountersClient;
use crate::v1::{ListCountersRequest, ReadCountersRequest, list_counters_response, read_counters_response};
use crate::{Error, Router};

/// The values of counters at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// When, in nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Those that are not 0.
    pub values: Vec<read_counters_response::Value>,
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

impl Router {
    /// What is counted: the counters of these names, or of names that begin so where one ends in `*`; all where there is no name.
    ///
    /// # Errors
    /// There is no such counter.
    pub async fn list_counters(&self, names: &[&str]) -> Result<Vec<list_counters_response::Counter>, Error> {
        let request = self.request(ListCountersRequest { names: owned(names) });
        let mut pieces = CountersClient::new(self.channel()).list(request).await?.into_inner();
        let mut all = vec![];
        while let Some(piece) = pieces.message().await? {
            all.extend(piece.counters);
        }
        Ok(all)
    }

    /// The values of counters now; names as for [`Router::list_counters`].
    ///
    /// # Errors
    /// There is no such counter.
    pub async fn counters(&self, names: &[&str]) -> Result<Reading, Error> {
        let mut readings = Box::pin(self.readings(names, 0).await?);
        readings.next().await.unwrap_or_else(|| Err(Error::protocol("the router has told no counters")))
    }

    /// The values of counters at an interval of 100 ms at least, until the stream is dropped.
    ///
    /// # Errors
    /// There is no such counter, which may also be told by the stream's first item.
    pub async fn watch_counters(
        &self,
        names: &[&str],
        interval: Duration,
    ) -> Result<impl Stream<Item = Result<Reading, Error>> + Send + use<>, Error> {
        self.readings(names, u32::try_from(interval.as_millis()).unwrap_or(u32::MAX)).await
    }

    async fn readings(
        &self,
        names: &[&str],
        interval_ms: u32,
    ) -> Result<impl Stream<Item = Result<Reading, Error>> + Send + use<>, Error> {
        let request = self.request(ReadCountersRequest { names: owned(names), interval_ms });
        let pieces = CountersClient::new(self.channel()).read(request).await?.into_inner();
        let mut values = vec![];
        Ok(pieces.filter_map(move |piece| match piece {
            Ok(piece) => {
                values.extend(piece.values);
                let whole = || Ok(Reading { time_ns: piece.time_ns, values: std::mem::take(&mut values) });
                piece.complete.then(whole)
            }
            Err(status) => Some(Err(status.into())),
        }))
    }
}
