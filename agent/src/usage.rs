//! `stockade usage`: what the sessions of this user used.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use stockade_session::usage::{By, Report, Used};

use crate::session::store;
use crate::shown::plain;
use crate::since::since;

/// Options of `stockade usage`.
#[derive(Debug, Args)]
pub(crate) struct Usage {
    /// Show a row for each
    #[arg(long, value_name = "WHAT", default_value = "day")]
    by: Rows,
    /// Leave out what is older, such as 7d, today or 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Rows {
    Day,
    Session,
    Project,
    Model,
}

impl Rows {
    fn by(self) -> By {
        match self {
            Rows::Day => By::Day,
            Rows::Session => By::Session,
            Rows::Project => By::Project,
            Rows::Model => By::Model,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Rows::Day => "day",
            Rows::Session => "session",
            Rows::Project => "project",
            Rows::Model => "model",
        }
    }
}

impl Usage {
    /// Prints the report.
    pub(crate) fn run(&self) -> ExitCode {
        match self.report() {
            Ok(text) => {
                let _ = std::io::stdout().write_all(text.as_bytes()); // nobody reads it
                ExitCode::SUCCESS
            }
            Err(error) => {
                crate::fail(&format!("{error:#}"), "`stockade usage --help` shows the options");
                ExitCode::from(stockade_wire::status::FAILED)
            }
        }
    }

    fn report(&self) -> anyhow::Result<String> {
        let since = self.since.as_deref().map(since).transpose()?;
        let report = store()?.usage(self.by.by(), since.map(SystemTime::from));
        for line in &report.left_out {
            eprintln!("stockade: left out: {}", plain(line));
        }
        Ok(match self.json {
            true => format!("{}\n", object(self.by.name(), &report)),
            false => table(self.by.name(), &report),
        })
    }
}

fn total(report: &Report) -> Used {
    report.rows.values().fold(Used::default(), |mut total, used| {
        total.root.add(&used.root);
        total.aggregate.add(&used.aggregate);
        total
    })
}

fn object(by: &str, report: &Report) -> Value {
    let used =
        |used: &Used| json!({ "root": used.root.object(), "aggregate": used.aggregate.object() });
    let row = |(name, it): (&String, &Used)| {
        let mut object = used(it);
        if let Some(object) = object.as_object_mut() {
            object.insert(by.to_owned(), json!(name));
        }
        object
    };
    let rows: Vec<Value> = report.rows.iter().map(row).collect();
    json!({ "by": by, "rows": rows, "total": used(&total(report)), "left_out": report.left_out })
}

/// Returns a table: tokens with sub-agents, dollars without and with them.
fn table(by: &str, report: &Report) -> String {
    if report.rows.is_empty() {
        return "No session used a model.\n".to_owned();
    }
    let names: Vec<String> = report.rows.keys().map(|name| plain(name)).collect();
    let width = names.iter().map(|name| name.chars().count()).chain([by.len(), 5]).max();
    let width = width.unwrap_or_default();
    let mut text = format!(
        "{:width$}  {:>8}  {:>12}  {:>12}  {:>12}  {:>10}  {:>10}\n",
        by.to_uppercase(),
        "ANSWERS",
        "INPUT",
        "CACHED",
        "OUTPUT",
        "ROOT USD",
        "USD"
    );
    let mut line = |name: &str, Used { root, aggregate }: &Used| {
        let cached = aggregate.cache_write.saturating_add(aggregate.cache_read);
        text.push_str(&format!(
            "{name:width$}  {:>8}  {:>12}  {cached:>12}  {:>12}  {:>10.4}  {:>10.4}\n",
            aggregate.answers, aggregate.input, aggregate.output, root.dollars, aggregate.dollars
        ));
    };
    names.iter().zip(report.rows.values()).for_each(|(name, used)| line(name, used));
    if report.rows.len() > 1 {
        line("total", &total(report));
    }
    text
}
