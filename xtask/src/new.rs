//! `cargo xtask new`: the files of a new kind, controller or plugin, with the rows to add.

use std::path::Path;

use anyhow::{Context, bail};

use crate::tool::{root, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    thing: Thing,
}

#[derive(clap::Subcommand)]
enum Thing {
    /// Rules and strategy of an API kind.
    Kind {
        /// Group folder, as `apps`.
        group: String,
        /// Snake-case kind, as `daemon_set`.
        kind: String,
    },
    /// A controller with its plan, act and tests.
    Controller {
        /// Snake-case name, as `daemon_set`.
        name: String,
    },
    /// A scheduler plugin.
    Plugin {
        /// Snake-case name, as `node_ports`.
        name: String,
    },
}

/// Writes the files; refuses to overwrite.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.thing {
        Thing::Kind { group, kind } => {
            let title = title(kind);
            write(
                &format!("libs/apis/src/{group}/{kind}.rs"),
                &format!("//! Rules of {title}: defaults and validation.\n"),
            )?;
            write(
                &format!("actors/registry/src/kinds/{group}/{kind}.rs"),
                &format!(
                    "//! {title}: what the registry decides for it.\n\nuse crate::kind::Strategy;\n\n/// Strategy of {title}.\n#[derive(Debug)]\npub struct {title}Strategy;\n\nimpl Strategy for {title}Strategy {{}}\n"
                ),
            )?;
            say(&format!("add rows: libs/apis/src/table.rs, actors/registry/src/table.rs ({title}Strategy)"));
        }
        Thing::Controller { name } => {
            for (part, text) in [
                (
                    String::new(),
                    format!(
                        "//! The {name} controller: what it watches and how it is run.\n\nmod act;\nmod plan;\n#[cfg(test)]\nmod tests;\n"
                    ),
                ),
                (
                    "/plan".into(),
                    format!("//! What the {name} controller decides: a pure function of what its caches show.\n"),
                ),
                ("/act".into(), format!("//! What the {name} controller does: carries out a plan through the API.\n")),
                ("/tests".into(), format!("//! Tests of the {name} controller's plan.\n")),
            ] {
                write(&format!("actors/controllers/src/{name}{part}.rs"), &text)?;
            }
            say("add a row: actors/controllers/src/table.rs");
        }
        Thing::Plugin { name } => {
            write(&format!("actors/scheduler/src/plugins/{name}.rs"), &format!("//! The {} plugin.\n", title(name)))?;
            say("add a row: actors/scheduler/src/table.rs");
        }
    }
    Ok(())
}

fn write(path: &str, text: &str) -> anyhow::Result<()> {
    let full = root().join(path);
    if full.exists() {
        bail!("{path} exists already");
    }
    std::fs::create_dir_all(full.parent().unwrap_or(Path::new("/"))).with_context(|| path.to_owned())?;
    std::fs::write(&full, text).with_context(|| path.to_owned())?;
    say(&format!("wrote {path}"));
    Ok(())
}

fn title(snake: &str) -> String {
    snake
        .split('_')
        .map(|word| {
            let mut chars = word.chars();
            chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect::<String>())
        })
        .collect()
}
