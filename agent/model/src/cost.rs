//! Tokens and money, by model, for the agent itself and for all of its sub-agents.

use std::collections::BTreeMap;

use crate::event::Usage;

/// Prices in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prices {
    /// Input that no cache held.
    pub input: f64,
    /// Input written to the provider's cache.
    pub cache_write: f64,
    /// Input read from the provider's cache.
    pub cache_read: f64,
    /// Output.
    pub output: f64,
}

impl Prices {
    /// Returns the price of `usage` in US dollars.
    #[must_use]
    pub fn of(&self, usage: Usage) -> f64 {
        // Counts of tokens are far below 2^53, so none of them loses a digit.
        #[allow(clippy::cast_precision_loss)]
        let part = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        part(usage.input, self.input)
            + part(usage.cache_write, self.cache_write)
            + part(usage.cache_read, self.cache_read)
            + part(usage.output, self.output)
    }
}

/// Use of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// Answers.
    pub answers: u64,
    /// Tokens.
    pub usage: Usage,
    /// US dollars.
    pub dollars: f64,
}

impl Spent {
    fn since(&self, earlier: &Spent) -> Spent {
        let Usage { input, cache_write, cache_read, output } = earlier.usage;
        Spent {
            answers: self.answers.saturating_sub(earlier.answers),
            usage: Usage {
                input: self.usage.input.saturating_sub(input),
                cache_write: self.usage.cache_write.saturating_sub(cache_write),
                cache_read: self.usage.cache_read.saturating_sub(cache_read),
                output: self.usage.output.saturating_sub(output),
            },
            dollars: self.dollars - earlier.dollars,
        }
    }
}

/// Use by model in two buckets: this agent alone, and with its sub-agents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    root: BTreeMap<String, Spent>,
    aggregate: BTreeMap<String, Spent>,
}

impl Ledger {
    /// Adds one answer of this agent's own.
    pub fn add(&mut self, model: &str, usage: Usage, prices: &Prices) {
        Ledger::enter(&mut self.root, model, usage, prices);
        Ledger::enter(&mut self.aggregate, model, usage, prices);
    }

    /// Adds one answer of a sub-agent.
    pub fn add_of_sub_agent(&mut self, model: &str, usage: Usage, prices: &Prices) {
        Ledger::enter(&mut self.aggregate, model, usage, prices);
    }

    /// Use of this agent alone, by model.
    #[must_use]
    pub fn root(&self) -> &BTreeMap<String, Spent> {
        &self.root
    }

    /// Use of this agent and its sub-agents, by model.
    #[must_use]
    pub fn aggregate(&self) -> &BTreeMap<String, Spent> {
        &self.aggregate
    }

    /// US dollars of this agent and its sub-agents: the amount that a budget limits.
    #[must_use]
    pub fn dollars(&self) -> f64 {
        self.aggregate.values().fold(0.0, |sum, spent| sum + spent.dollars)
    }

    /// Returns the difference to an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Ledger) -> Ledger {
        let beyond = |now: &BTreeMap<String, Spent>, then: &BTreeMap<String, Spent>| {
            let rest = now.iter().map(|(model, now)| {
                let then = then.get(model).copied().unwrap_or_default();
                (model.clone(), now.since(&then))
            });
            rest.filter(|(_, spent)| spent.answers > 0).collect()
        };
        Ledger {
            root: beyond(&self.root, &earlier.root),
            aggregate: beyond(&self.aggregate, &earlier.aggregate),
        }
    }

    fn enter(bucket: &mut BTreeMap<String, Spent>, model: &str, usage: Usage, prices: &Prices) {
        let spent = bucket.entry(model.to_owned()).or_default();
        spent.answers = spent.answers.saturating_add(1);
        spent.usage.add(usage);
        spent.dollars += prices.of(usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_costs_nothing_and_not_less() {
        assert!(Ledger::default().dollars().is_sign_positive());
    }

    #[test]
    fn sub_agents_are_in_the_aggregate_alone() {
        let prices = Prices { input: 3.0, cache_write: 3.75, cache_read: 0.3, output: 15.0 };
        let usage =
            Usage { input: 1_000_000, cache_write: 200_000, cache_read: 100_000, output: 10_000 };
        let mut ledger = Ledger::default();
        ledger.add("large", usage, &prices);
        ledger.add_of_sub_agent("large", usage, &prices);
        ledger.add_of_sub_agent("small", Usage { output: 2, ..Usage::default() }, &prices);
        let once = 3.0 + 0.75 + 0.03 + 0.15;
        let close = |left: f64, right: f64| (left - right).abs() < 1e-9;
        assert!(close(ledger.root()["large"].dollars, once));
        assert_eq!(ledger.root().keys().collect::<Vec<_>>(), ["large"]);
        assert_eq!(ledger.aggregate()["large"].answers, 2);
        assert_eq!(ledger.aggregate()["large"].usage.cache_write, 400_000);
        assert!(close(ledger.dollars(), 2.0 * once + 0.000_03));
    }
}
