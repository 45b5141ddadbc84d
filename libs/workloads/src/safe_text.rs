//! Texts for generated names that spell no words (upstream `rand.SafeEncodeString`).

/// The characters of a safe text: no vowels, and no digits that look like vowels.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the safe text of a number: one character for each of the number's decimal digits.
#[must_use]
pub fn of_number(number: u32) -> String {
    let letter = |digit: u8| ALPHABET.get(usize::from(digit) % ALPHABET.len()).copied();
    number.to_string().bytes().filter_map(letter).map(char::from).collect()
}
