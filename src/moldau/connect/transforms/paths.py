"""◇ Names of fields, nested ones too: `a.b`, with backticks around names that hold dots.  Source: SingleFieldPath (KIP-821)."""

from moldau.connect.errors import ConfigError


def path_of(text: str, version: str) -> list[str]:
    """V1: the text is one name.  Errors: ConfigError."""
    if version.upper() != "V2":
        return [text]
    steps, step, at = [], "", 0
    while at < len(text):
        if text[at] == "`" and not step:
            end = at + 1
            while True:
                end = text.find("`", end)
                if end < 0:
                    raise ConfigError(
                        f"Incomplete backtick pair in path: [{text}], consider adding a backslash before the backtick at {at}"
                    )
                if text[end - 1] != "\\" and (end + 1 == len(text) or text[end + 1] == "."):
                    break
                end += 1
            step = text[at + 1 : end].replace("\\`", "`")
            at = end + 1
        elif text[at] == ".":
            steps.append(step)
            step = ""
            at += 1
        else:
            step += text[at]
            at += 1
    return [*steps, step]
