//! Pictures and PDF files, and the types of content that cannot be shown.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::{DynamicImage, ImageFormat, ImageReader, Limits};
use serde_json::json;

use crate::answer::{Answer, Content, Facts};
use crate::error::{Error, refuse};
use crate::found::Found;
use crate::text::{digest, visible};

/// Longest side of a picture that is sent as it is, in pixels.
const SIDE: u32 = 1_568;
/// Most bytes of a picture that is sent as it is.
const BYTES: usize = 3 << 20;
/// Longest side of a picture that is read, in pixels.
const MAX_SIDE: u32 = 16_384;
/// Most memory for one picture.
const MAX_MEMORY: u64 = 256 << 20;
/// Most pages of a PDF that are shown at once.
const PAGES: usize = 20;
/// Most characters of the pages that are shown.
const CHARACTERS: usize = 100_000;

/// Returns the format of a picture by its first bytes; none for other files.
pub(crate) fn picture(bytes: &[u8]) -> Option<ImageFormat> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some(ImageFormat::Png),
        [0xff, 0xd8, 0xff, ..] => Some(ImageFormat::Jpeg),
        [b'G', b'I', b'F', b'8', ..] => Some(ImageFormat::Gif),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(ImageFormat::WebP),
        _ => None,
    }
}

/// Returns the name of a type of file by its first bytes, with its article.
pub(crate) fn kind(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x7f, b'E', b'L', b'F', ..] => "an ELF executable",
        [b'P', b'K', 3 | 5, ..] => "a ZIP archive",
        [0x1f, 0x8b, ..] => "a gzip archive",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "a Zstandard archive",
        [0xfd, b'7', b'z', ..] => "an xz archive",
        [b'S', b'Q', b'L', b'i', b't', b'e', ..] => "an SQLite database",
        [0, b'a', b's', b'm', ..] => "a WebAssembly module",
        _ => "binary data",
    }
}

/// Shows a picture, scaled down if it is large.
pub(crate) fn shown(found: &Found, format: ImageFormat) -> Result<Answer, Error> {
    let broken = |error: &dyn std::fmt::Display| {
        Error::Call(format!("{} is a picture that cannot be read: {error}", found.path.display()))
    };
    let mut reader = ImageReader::with_format(Cursor::new(&found.bytes), format);
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits);
    let image = reader.decode().map_err(|error| broken(&error))?;
    let small = image.width() <= SIDE && image.height() <= SIDE && found.bytes.len() <= BYTES;
    let (bytes, media_type) = match small {
        true => (found.bytes.clone(), format.to_mime_type()),
        false => scaled(&image).map_err(|error| broken(&error))?,
    };
    let data = STANDARD.encode(&bytes);
    let file = json!({ "base64": data, "type": media_type, "originalSize": found.bytes.len() });
    let facts =
        Facts { path: found.path.clone(), digest: digest(&found.bytes), ranges: Vec::new() };
    Ok(Answer {
        content: vec![Content::Image { media_type: media_type.to_owned(), data }],
        result: json!({ "type": "image", "file": file }),
        facts: Some(facts),
        error: None,
    })
}

fn scaled(image: &DynamicImage) -> image::ImageResult<(Vec<u8>, &'static str)> {
    let smaller = image.thumbnail(SIDE, SIDE);
    let mut bytes = Cursor::new(Vec::new());
    let format = if image.color().has_alpha() { ImageFormat::Png } else { ImageFormat::Jpeg };
    smaller.write_to(&mut bytes, format)?;
    Ok((bytes.into_inner(), format.to_mime_type()))
}

/// Shows pages of a PDF as text.
pub(crate) fn pages(found: &Found, wanted: Option<&str>) -> Result<Answer, Error> {
    let bytes = found.bytes.clone();
    // The library panics on some files that are damaged.
    let read =
        std::panic::catch_unwind(move || pdf_extract::extract_text_from_mem_by_pages(&bytes));
    let Ok(Ok(all)) = read else {
        return refuse(format!("{} is a PDF whose text cannot be read.", found.path.display()));
    };
    let (first, last) = match wanted {
        Some(wanted) => range(wanted, all.len())?,
        None if all.len() > PAGES => {
            return refuse(format!(
                "{} has {} pages. Name at most {PAGES} of them in `pages`, such as `1-5`.",
                found.path.display(),
                all.len()
            ));
        }
        None => (1, all.len()),
    };
    let part = all.iter().enumerate().skip(first - 1).take(last + 1 - first);
    let texts: Vec<String> = part
        .map(|(index, page)| {
            format!("--- Page {} of {} ---\n{}", index + 1, all.len(), visible(page.trim()))
        })
        .collect();
    let mut text = texts.join("\n\n");
    if let Some((end, _)) = text.char_indices().nth(CHARACTERS) {
        text.truncate(end);
        text.push_str("\n(cut; name fewer pages)");
    }
    let file =
        json!({ "filePath": found.path, "originalSize": found.bytes.len(), "pages": all.len() });
    let mut answer = Answer::text(text, json!({ "type": "pdf", "file": file }));
    answer.facts =
        Some(Facts { path: found.path.clone(), digest: digest(&found.bytes), ranges: Vec::new() });
    Ok(answer)
}

/// Reads pages such as `3` or `1-5`, counted from 1.
fn range(wanted: &str, count: usize) -> Result<(usize, usize), Error> {
    let (first, last) = wanted.split_once('-').unwrap_or((wanted, wanted));
    let (first, last) = (first.trim().parse::<usize>(), last.trim().parse::<usize>());
    match (first, last) {
        (Ok(first), Ok(last))
            if first >= 1 && first <= last && first <= count && last - first < PAGES =>
        {
            Ok((first, last.min(count)))
        }
        _ => refuse(format!(
            "`pages` is `{}`; give one page or a range of at most {PAGES}, such as `1-5`, of the {count} pages.",
            visible(wanted)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::{Folder, text};

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::new_rgb8(width, height).write_to(&mut bytes, ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn a_picture_is_sent_and_a_large_one_scaled_down() {
        let folder = Folder::new();
        folder.write("small.png", png(3, 2));
        folder.write("large.png", png(4_000, 20));
        let small = folder.call("Read", json!({ "file_path": "small.png" }));
        let data = STANDARD.encode(png(3, 2));
        assert_eq!(small.content, [Content::Image { media_type: "image/png".into(), data }]);
        let large = folder.call("Read", json!({ "file_path": "large.png" }));
        let [Content::Image { media_type, data }] = large.content.as_slice() else {
            panic!("{large:?}")
        };
        let image = image::load_from_memory(&STANDARD.decode(data).unwrap()).unwrap();
        assert_eq!((media_type.as_str(), image.width()), ("image/jpeg", 1_568));
        folder.write("broken.png", &png(3, 2)[..20]);
        let broken = folder.call("Read", json!({ "file_path": "broken.png" }));
        assert!(text(&broken).contains("cannot be read"));
    }

    /// A PDF with one line of text on each page.
    fn pdf(lines: &[&str]) -> Vec<u8> {
        let count = lines.len();
        let kids: Vec<String> = (0..count).map(|it| format!("{} 0 R", 4 + 2 * it)).collect();
        let mut objects = vec![
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            format!("<< /Type /Pages /Kids [{}] /Count {count} >>", kids.join(" ")),
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
                .to_owned(),
        ];
        for (index, line) in lines.iter().enumerate() {
            let content = format!("BT /F1 12 Tf 10 100 Td ({line}) Tj ET");
            objects.push(format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents {} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
                5 + 2 * index
            ));
            objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
        }
        let mut file = "%PDF-1.4\n".to_owned();
        let mut offsets = Vec::new();
        for (index, object) in objects.iter().enumerate() {
            offsets.push(file.len());
            file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", index + 1));
        }
        let start = file.len();
        file.push_str(&format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1));
        for offset in offsets {
            file.push_str(&format!("{offset:010} 00000 n \n"));
        }
        file.push_str(&format!(
            "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n",
            objects.len() + 1
        ));
        file.into_bytes()
    }

    #[test]
    fn pages_of_a_pdf_are_text() {
        let folder = Folder::new();
        folder.write("a.pdf", pdf(&["first", "second"]));
        folder.write("broken.pdf", b"%PDF-1.4\nnothing");
        let all = folder.call("Read", json!({ "file_path": "a.pdf" }));
        assert_eq!(text(&all), "--- Page 1 of 2 ---\nfirst\n\n--- Page 2 of 2 ---\nsecond");
        let one = folder.call("Read", json!({ "file_path": "a.pdf", "pages": "2" }));
        assert_eq!(text(&one), "--- Page 2 of 2 ---\nsecond");
        let wrong = folder.call("Read", json!({ "file_path": "a.pdf", "pages": "0-9" }));
        assert!(text(&wrong).contains("`pages` is `0-9`"));
        let broken = folder.call("Read", json!({ "file_path": "broken.pdf" }));
        assert!(text(&broken).contains("cannot be read"));
    }
}
