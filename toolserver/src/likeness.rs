//! Which names look like one that was not found, for the answers that say so.

/// Scores names by how alike they are to `wanted`, from 0 to 1, the most alike first. Capitals make no difference.
#[must_use]
pub fn rank_by_likeness<T: AsRef<str>>(
    wanted: &str,
    names: impl IntoIterator<Item = T>,
) -> Vec<(f64, T)> {
    let wanted = wanted.to_lowercase();
    let score = |name: T| {
        (
            strsim::jaro_winkler(&wanted, &name.as_ref().to_lowercase()),
            name,
        )
    };
    let mut scored: Vec<(f64, T)> = names.into_iter().map(score).collect();
    scored.sort_by(|one, two| {
        two.0
            .total_cmp(&one.0)
            .then_with(|| one.1.as_ref().cmp(two.1.as_ref()))
    });
    scored
}
