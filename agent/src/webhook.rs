//! `stockade approvals webhook`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use crate::fail;

/// The options, as the command line of the gateway passes them on.
#[derive(Debug, clap::Args)]
pub(crate) struct Webhook {
    /// Send questions to this address.
    #[arg(long, value_name = "URL")]
    url: String,
    /// Sign with the key in this file.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Take answers at this loopback port [default: any free one].
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// The form of the messages.
    #[arg(long, value_name = "FORM", default_value = "plain")]
    form: Form,
    /// Use the gateway that listens at this socket.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    Plain,
    Slack,
    Teams,
}

impl Webhook {
    /// Sends and takes until Ctrl-C.
    pub(crate) fn run(self) -> ExitCode {
        let Webhook { url, key, port, form, socket } = self;
        let form = match form {
            Form::Plain => stockade_web::Form::Plain,
            Form::Slack => stockade_web::Form::Slack,
            Form::Teams => stockade_web::Form::Teams,
        };
        let webhook = stockade_web::Webhook { socket, url, key, port, form };
        match stockade_web::webhook(&webhook) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                fail(
                    &format!("{error:#}"),
                    "`stockade approvals webhook --help` shows the options",
                );
                ExitCode::from(stockade_wire::status::FAILED)
            }
        }
    }
}
