//! Errors of the work for a pod. Their texts are upstream's, for events and statuses; their variants say whether a later attempt may succeed.

use std::io;
use std::path::{Path, PathBuf};

/// Why the kubelet cannot do something for a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PodError {
    /// The pod's specification asks for something that this kubelet never gives; no attempt succeeds.
    #[error("{0}")]
    Invalid(String),
    /// Something that the pod needs is missing, unfinished or does not answer; a later attempt may succeed.
    #[error("{0}")]
    NotReady(String),
    /// The operating system refused; a later attempt may succeed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// An error of a part, in the words of the whole.
    #[error("{text}")]
    Within {
        /// The text of the whole, which contains the part's.
        text: String,
        /// The error of the part.
        source: Box<PodError>,
    },
}

impl PodError {
    /// Whether no later attempt succeeds while pod and node stay as they are.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::Invalid(_) => true,
            Self::NotReady(_) | Self::System(_) => false,
            Self::Within { source, .. } => source.is_permanent(),
        }
    }

    /// Returns the error in the words of a whole of which the failed step is a part.
    pub(crate) fn within(self, words: impl FnOnce(&Self) -> String) -> Self {
        Self::Within { text: words(&self), source: Box::new(self) }
    }
}

/// A refusal of the operating system in Go's form: `mkdir /a: permission denied`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} {}: {text}", .path.display())]
pub(crate) struct SystemError {
    call: String,
    path: PathBuf,
    text: String,
}

/// Returns the error of a call about a path.
pub(crate) fn because<'a>(call: &'a str, path: &'a Path) -> impl Fn(io::Error) -> PodError + 'a {
    move |error| {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_lowercase();
        SystemError { call: call.to_owned(), path: path.to_owned(), text }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_whole_do_not_hide_whether_its_part_is_permanent() {
        let whole = |part: PodError| part.within(|why| format!("error processing PVC shop/data: {why}"));
        let waits = whole(PodError::NotReady("PVC is not bound".to_owned()));
        assert_eq!(
            (waits.to_string().as_str(), waits.is_permanent()),
            ("error processing PVC shop/data: PVC is not bound", false)
        );
        assert!(whole(PodError::Invalid("never".to_owned())).is_permanent());
    }

    #[test]
    fn a_refusal_of_the_operating_system_has_gos_words() {
        let error = because("mkdir", Path::new("/a"))(io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!((error.to_string().as_str(), error.is_permanent()), ("mkdir /a: permission denied", false));
    }
}
