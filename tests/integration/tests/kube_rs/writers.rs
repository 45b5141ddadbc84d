//! Many writers of one object.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use oarlock_runtime::{clock, rng};
use oarlock_testkit::wait::step;
use tokio::task::JoinSet;

use super::{data, map, maps};

const WRITERS: u32 = 200;
/// Longest pause of a writer that lost against another, so that they do not lose against each other for ever.
const PAUSE_MILLIS: u64 = 100;

/// Adds one under optimistic concurrency; the number of times it lost.
async fn add_one(maps: Api<ConfigMap>) -> u32 {
    for lost in 0.. {
        let mut counter = maps.get("counter").await.unwrap();
        let next = data(&counter)["n"].parse::<u32>().unwrap() + 1;
        counter.data.get_or_insert_default().insert("n".to_owned(), next.to_string());
        match maps.replace("counter", &PostParams::default(), &counter).await {
            Ok(_) => return lost,
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                clock::sleep(Duration::from_millis(rng::below(PAUSE_MILLIS))).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!("u32 is enough")
}

pub(super) async fn of_two_hundred_writers_of_one_object_none_is_lost(client: Client) {
    let maps = maps(&client);
    maps.create(&PostParams::default(), &map("counter", &[("n", "0")])).await.unwrap();
    let mut writers: JoinSet<u32> = (0..WRITERS).map(|_| add_one(maps.clone())).collect();
    let mut lost = 0;
    for done in 0..WRITERS {
        let writer = step(&format!("{done} of {WRITERS} writers had their turn"), writers.join_next()).await;
        lost += writer.unwrap().unwrap();
    }
    eprintln!("{WRITERS} writers, {lost} conflicts");
    assert!(lost > 0, "they never met, so nothing was shown");
    assert_eq!(data(&maps.get("counter").await.unwrap())["n"], WRITERS.to_string());
}
