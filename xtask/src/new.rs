//! `cargo xtask new`: the files of a new kind, controller or plugin from their patterns, declared in their modules, with the rows to add.

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
        /// Snake-case kind, as `replica_set`.
        kind: String,
    },
    /// A controller with its plan, act and tests.
    Controller {
        /// Domain folder, as `apps`.
        domain: String,
        /// Snake-case name, as `replica_set`.
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
            write(&format!("libs/apis/src/{group}/{kind}.rs"), include_str!("../patterns/rules.txt"), kind)?;
            let strategy = include_str!("../patterns/strategy.txt");
            write(&format!("actors/registry/src/kinds/{group}/{kind}.rs"), strategy, kind)?;
            declare(&format!("libs/apis/src/{group}.rs"), "pub mod ", kind)?;
            declare(&format!("actors/registry/src/kinds/{group}.rs"), "pub mod ", kind)?;
            declare("actors/registry/src/kinds.rs", "pub mod ", group)?;
            say(&format!(
                "add rows: libs/apis/src/{group}.rs (TypeRules), actors/registry/src/table.rs ({title}Strategy)"
            ));
        }
        Thing::Controller { domain, name } => {
            let folder = format!("actors/controllers/src/{domain}/{name}");
            write(&format!("{folder}.rs"), include_str!("../patterns/controller.txt"), name)?;
            write(&format!("{folder}/plan.rs"), include_str!("../patterns/plan.txt"), name)?;
            write(&format!("{folder}/act.rs"), include_str!("../patterns/act.txt"), name)?;
            write(&format!("{folder}/tests.rs"), include_str!("../patterns/tests.txt"), name)?;
            declare(&format!("actors/controllers/src/{domain}.rs"), "pub(crate) mod ", name)?;
            declare("actors/controllers/src/lib.rs", "mod ", domain)?;
            say(&format!("add a row: actors/controllers/src/table.rs ({domain}::{name}::ROW)"));
        }
        Thing::Plugin { name } => {
            let path = format!("actors/scheduler/src/plugins/{name}.rs");
            write(&path, include_str!("../patterns/plugin.txt"), name)?;
            declare("actors/scheduler/src/plugins.rs", "pub(crate) mod ", name)?;
            say(&format!("add a row, at upstream's place: actors/scheduler/src/table.rs ({name}::ROW)"));
        }
    }
    Ok(())
}

/// Writes a pattern with its names filled in.
fn write(path: &str, pattern: &str, name: &str) -> anyhow::Result<()> {
    let text = pattern
        .replace("{Title}", &title(name))
        .replace("{kebab}", &name.replace('_', "-"))
        .replace("{name}", &name.replace('_', ""));
    let full = root().join(path);
    if full.exists() {
        bail!("{path} exists already");
    }
    if let Some(folder) = full.parent() {
        std::fs::create_dir_all(folder).with_context(|| path.to_owned())?;
    }
    std::fs::write(&full, text).with_context(|| path.to_owned())?;
    say(&format!("wrote {path}"));
    Ok(())
}

/// Adds a module's declaration, in order; makes the file that holds it.
fn declare(path: &str, keyword: &str, module: &str) -> anyhow::Result<()> {
    let full = root().join(path);
    let text = match std::fs::read_to_string(&full) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            format!("//! The {} group.\n\n", full.file_stem().unwrap_or_default().display())
        }
        Err(e) => return Err(e).context(path.to_owned()),
    };
    let line = format!("{keyword}{module};");
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.contains(&line.as_str()) {
        return Ok(());
    }
    let after = lines.iter().position(|known| known.starts_with(keyword) && **known > *line);
    let last = lines.iter().rposition(|known| known.starts_with(keyword)).map(|at| at + 1);
    lines.insert(after.or(last).unwrap_or(lines.len()), &line);
    std::fs::write(&full, lines.join("\n") + "\n").with_context(|| path.to_owned())?;
    say(&format!("declared {module} in {path}"));
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
