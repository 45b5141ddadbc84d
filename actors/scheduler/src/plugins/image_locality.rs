//! ImageLocality: nodes that have the pod's images score more, by size and by how widespread an image is.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, SpecId};
use crate::column::NodeIx;
use crate::framework::{MAX_SCORE, Scope, Score};
use crate::map::Map;
use crate::model::PodSpec;
use crate::plugin::Plugin;

/// The row of ImageLocality in the table of plugins.
pub(crate) const ROW: Plugin = Plugin { name: "ImageLocality", weight: 1, score: Some(compile), ..Plugin::NONE };

const MEBIBYTE: i64 = 1024 * 1024;
/// Sum of image sizes below which the score is 0 (upstream: `minThreshold`).
const MIN_SIZE: i64 = 23 * MEBIBYTE;
/// Image size per container above which the score does not rise (upstream: `maxContainerThreshold`).
const MAX_SIZE: i64 = 1000 * MEBIBYTE;

struct ImageLocality(Arc<PodSpec>);

fn compile(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Score>> {
    let spec = &cluster.spec(spec)?.spec;
    (!spec.images.is_empty()).then(|| Box::new(ImageLocality(Arc::clone(spec))) as Box<dyn Score>)
}

/// Returns an image's size times the fraction of nodes that have the image, so that pods do not all go to the first nodes with a new image.
fn scaled(size: i64, holders: i64, nodes: usize) -> i64 {
    (size as f64 * (holders as f64 / nodes as f64)) as i64
}

fn priority(sum: i64, containers: usize) -> i32 {
    let most = MAX_SIZE * containers as i64;
    let score = i64::from(MAX_SCORE) * (sum.clamp(MIN_SIZE, most.max(MIN_SIZE)) - MIN_SIZE) / (most - MIN_SIZE);
    score as i32
}

impl Score for ImageLocality {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Node
    }

    fn fingerprint(&self, cluster: &Cluster) -> u64 {
        let mut hasher = std::hash::BuildHasher::build_hasher(&foldhash::fast::FixedState::default());
        for image in &self.0.images {
            if let Some(row) = cluster.nodes.image(*image) {
                (image, row.count, row.size, cluster.nodes.count).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn score(&self, cluster: &Cluster, _: &BitSet, weight: i32, out: &mut [i32]) {
        let mut sums: Map<NodeIx, i64> = Map::default();
        for image in &self.0.images {
            let Some(row) = cluster.nodes.image(*image) else { continue };
            let value = scaled(row.size, row.count, cluster.nodes.count);
            for node in row.nodes.iter() {
                *sums.entry(node).or_default() += value;
            }
        }
        for (node, sum) in sums {
            if let Some(total) = out.get_mut(node.at()) {
                *total += weight * priority(sum, self.0.images.len());
            }
        }
    }

    fn score_node(&self, cluster: &Cluster, node: NodeIx) -> i32 {
        let rows = self.0.images.iter().filter_map(|image| cluster.nodes.image(*image));
        let sum = rows
            .filter(|row| row.nodes.contains(node))
            .map(|row| scaled(row.size, row.count, cluster.nodes.count))
            .sum();
        priority(sum, self.0.images.len())
    }
}
