//! Prints the grammar's nodes of each line of standard input (JSON-free: one text a line).
fn main() {
    let mut grammar = stockade_witness::Grammar::load().unwrap();
    let kinds = grammar.kinds();
    for line in std::io::stdin().lines() {
        let text = line.unwrap().replace("\\n", "\n");
        println!("== {text}");
        if let stockade_witness::Seen::Nodes(nodes) = grammar.see(text.as_bytes()) {
            for n in nodes {
                let k = kinds.get(n.kind as usize).map_or("ERROR", |k| &k.name);
                let named = kinds.get(n.kind as usize).is_none_or(|k| k.named);
                println!(
                    "{}{}{}{} {:?}",
                    "  ".repeat(n.depth as usize),
                    if named { "" } else { "'" },
                    k,
                    if n.broken { "!!" } else { "" },
                    text.get(n.start as usize..n.end as usize).unwrap_or("?")
                );
            }
        }
    }
}
