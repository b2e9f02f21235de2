"""Pages of the site that are files at the top of the repository, and links to them."""

import re
from pathlib import Path, PurePosixPath

from mkdocs.structure.files import File

TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}


def on_files(files, config):
    """Add the files, with links as they are from docs/."""
    root = Path(config.config_file_path).parent
    for source, page in TOP.items():
        text = (root / source).read_text(encoding="utf-8")
        text = re.sub(r"\]\(docs/", "](", text)
        for other, name in TOP.items():
            text = text.replace(f"]({other}", f"]({name}")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, **_):
    """Let links to these files lead to their pages."""
    up = "../" * len(PurePosixPath(page.file.src_uri).parents)
    for source, name in TOP.items():
        target = up.removesuffix("../") + name
        markdown = markdown.replace(f"]({up}{source}", f"]({target}")
    return markdown
