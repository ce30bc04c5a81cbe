"""Man pages and shell completions of the package, from what defines them: the binary's help (options), docs/commands.md (which is
generated from the commands) and docs/configuration.md (every field).

  pages.py --binary FILE --version VERSION --root FOLDER

Only Python's own library.
"""

import argparse
import gzip
import re
import subprocess
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


# ----------------------------------------------------------------------------------------------------------- man pages


def roff(text):
    """Text as roff takes it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def inline(text):
    """A line of Markdown: code is bold, what stands out is in italics, links are their words."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)

    def prose(text):
        return re.sub(r"\*([^*\s][^*]*)\*", r"\\fI\1\\fR", roff(text).replace("**", ""))

    parts = re.split(r"`([^`]*)`", text)
    return "".join(f"\\fB{roff(p)}\\fR" if i % 2 else prose(p).removeprefix("\\&")
                   for i, p in enumerate(parts)) if len(parts) > 1 else prose(text)


def safe(line):
    return "\\&" + line if line[:1] in (".", "'") else line


def row(line):
    """The cells of a line of a table; a bar in code is written \\|."""
    cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
    return [c.strip().replace("\\|", "|") for c in cells]


def table(lines):
    """A table of Markdown as a list: the first cell, and under it the others with their heads."""
    head, out = row(lines[0]), []
    for line in lines[2:]:
        cells = row(line)
        out += [".TP", safe(inline(cells[0]))]
        said = []
        for name, cell in zip(head[1:], cells[1:]):
            if cell:
                said.append(inline(f"{name}: {cell}" if name and len(head) > 2 else cell))
        out.append(safe("; ".join(said) or "\\&"))
    return out


def markdown(text):
    """The body of a page of docs as roff."""
    out, lines, i = [], text.splitlines(), 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("```"):
            end = next(n for n in range(i + 1, len(lines)) if lines[n].startswith("```"))
            out += [".PP", ".nf", ".RS 4", *(roff(code) for code in lines[i + 1:end]), ".RE", ".fi"]
            i = end
        elif line.startswith("|"):
            end = i
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            out += table(lines[i:end])
            out.append(".PP")
            i = end - 1
        elif line.startswith("### "):
            out.append(f".SS {inline(line[4:])}")
        elif line.startswith("## "):
            out.append(f".SH {inline(line[3:])}")
        elif line.startswith("# ") or line.startswith("<!--"):
            pass
        elif not line.strip():
            out.append(".PP")
        else:
            # What stands in one pair of marks may go on in the next line.
            words = line.strip()
            while i + 1 < len(lines) and lines[i + 1].strip() and not re.match(r"\s*(- |\||#|<!--|```)", lines[i + 1]):
                i += 1
                words += " " + lines[i].strip()
            item = words.startswith("- ")
            out += [".IP \\(bu 2"] if item else []
            out.append(safe(inline(words.removeprefix("- "))))
        i += 1
    return "\n".join(out) + "\n"


def head(name, section, version, summary):
    return f'.TH {name.upper()} {section} "" "quiver {version}" ""\n.SH NAME\n{name} \\- {roff(summary)}\n'


def plain(text):
    return ".nf\n" + "\n".join(roff(line) for line in text.splitlines()) + "\n.fi\n"


def pages(helps, version):
    """{path: text}."""
    say = head("quiver", 8, version, helps[""].splitlines()[0])
    say += ".SH SYNOPSIS\n" + "".join(f".B quiver {name}\n{roff(usage(text, name))}\n.br\n" for name, text in helps.items() if name)
    for name, text in helps.items():
        say += f".SH QUIVER {name.upper()}\n{plain(text)}" if name else ""
    say += (
        ".SH FILES\n.TP\n/etc/quiver/quiver.yaml\nthe configuration, as quiver.service takes it: quiver.yaml(5)\n"
        ".TP\n/run/quiver/ctl.sock\nthe control socket\n"
        ".SH SIGNALS\n.TP\nSIGTERM, SIGINT, SIGQUIT\nend the router in order\n"
        ".TP\nSIGHUP\nhas the log file opened anew\n"
        ".SH ENVIRONMENT\n.TP\nQUIVER_CTL\nthe control socket of ctl and dump\n.TP\nQUIVER_CPU\n"
        "v2, v3 or v4: use fewer instructions than the processor has\n.TP\nNOTIFY_SOCKET, WATCHDOG_USEC\n"
        "as sd_notify(3): READY=1, STOPPING=1, and WATCHDOG=1 while the control thread and every worker get on\n"
        ".SH SEE ALSO\nquiver\\-ctl(1), quiver.yaml(5)\n"
    )
    ctl = head("quiver-ctl", 1, version, "commands of the running router")
    ctl += f".SH SYNOPSIS\n.B quiver ctl\n{roff(usage(helps['ctl'], 'ctl'))}\n"
    ctl += ".SH DESCRIPTION\n" + plain(helps["ctl"]) + ".SH COMMANDS\n"
    ctl += markdown((DOCS / "commands.md").read_text().replace("\n## ", "\n### "))
    ctl += ".SH SEE ALSO\nquiver(8), quiver.yaml(5)\n"
    conf = head("quiver.yaml", 5, version, "configuration of quiver") + ".SH DESCRIPTION\n"
    conf += markdown((DOCS / "configuration.md").read_text()) + ".SH SEE ALSO\nquiver(8), quiver\\-ctl(1)\n"
    return {"man8/quiver.8": say, "man1/quiver-ctl.1": ctl, "man5/quiver.yaml.5": conf}


# --------------------------------------------------------------------------------------------------------- completions


def usage(text, name):
    return next(line for line in text.splitlines() if line.startswith("Usage:")).split(f"quiver {name}", 1)[1].strip()


def options(text):
    """[(short, long, takes a value, what it is)] of clap's help."""
    found = []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        m = re.match(r"^ {2,6}(?:(-\w), )?\s*(--[\w-]+)(?: (<[^>]+>))?(?:\s{2,}(.*))?$", line)
        if m:
            below = lines[i + 1].strip() if i + 1 < len(lines) else ""
            found.append((m[1], m[2], bool(m[3]), (m[4] or below).strip()))
    return found


def syntaxes():
    """The commands as docs/commands.md shows them, each as its leading words; `*` stands for a value."""
    found = []
    for block in re.findall(r"\n## [^\n]*\n\n```\n(.*?)\n```", (DOCS / "commands.md").read_text(), re.S):
        for line in block.splitlines():
            words = []
            for word in line.split():
                if re.fullmatch(r"<[^>]+>", word):
                    words.append("*")
                elif re.fullmatch(r"[\w.-]+", word):
                    words.append(word)
                else:
                    break
            if words:
                found.append(" ".join(words))
    return sorted(set(found))


BASH = r"""# bash completion of quiver: made by scripts/pages.py.
_quiver() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} sub=${COMP_WORDS[1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "@subs@" -- "$cur"))
        return
    fi
    case "$prev" in
        @files@) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    esac
    case "$sub $cur" in
@options@
    esac
    case "$sub" in
        check) COMPREPLY=($(compgen -f -- "$cur")) ;;
        ctl) _quiver_ctl ;;
    esac
}

# The next words of every command that begins as the words typed do.
_quiver_ctl() {
    local cur=${COMP_WORDS[COMP_CWORD]} words=() skip= line i known exact begun lines next=()
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [ -n "$skip" ]; then skip=; continue; fi
        case "${COMP_WORDS[i]}" in
            -s | --socket) skip=1 ;;
            -*) ;;
            *) words+=("${COMP_WORDS[i]}") ;;
        esac
    done
    mapfile -t lines <<'END'
@commands@
END
    # A whole word is that word, and not the beginning of another one; `*` stands for a value.
    for ((i = 0; i < ${#words[@]}; i++)); do
        exact=() begun=()
        for line in "${lines[@]}"; do
            read -ra known <<<"$line"
            case "${known[i]}" in
                "") ;;
                "${words[i]}") exact+=("$line") ;;
                "*" | "${words[i]}"*) begun+=("$line") ;;
            esac
        done
        if [ ${#exact[@]} -gt 0 ]; then lines=("${exact[@]}"); else lines=("${begun[@]}"); fi
    done
    for line in "${lines[@]}"; do
        read -ra known <<<"$line"
        if [ -n "${known[i]}" ] && [ "${known[i]}" != "*" ]; then next+=("${known[i]}"); fi
    done
    if [ "${#words[@]}" -eq 1 ] && [ "${words[0]}" = exec ]; then COMPREPLY=($(compgen -f -- "$cur")); return; fi
    COMPREPLY=($(compgen -W "$(printf '%s\n' "${next[@]}" | sort -u)" -- "$cur"))
}

complete -F _quiver quiver
"""


def completions(helps):
    subs = [name for name in helps if name]
    files, cases = set(), []
    for name in subs:
        found = options(helps[name])
        words = " ".join(w for short, long, _, _ in found for w in (short, long) if w)
        cases.append(f'        "{name} -"*) COMPREPLY=($(compgen -W "{words}" -- "$cur")); return ;;')
        files |= {w for short, long, value, _ in found if value and long in ("--config", "--socket", "--table", "--updates")
                  for w in (short, long) if w}
    bash = BASH.replace("@subs@", " ".join(subs)).replace("@files@", " | ".join(sorted(files)))
    bash = bash.replace("@options@", "\n".join(cases)).replace("@commands@", "\n".join(syntaxes()))

    def quoted(text):
        return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", "")

    zsh = ["#compdef quiver", "# zsh completion of quiver: made by scripts/pages.py.", "_quiver() {",
           "    local context state line", "    _arguments -C '1: :->command' '*:: :->rest'", "    case $state in",
           "        command) _values 'command' " + " ".join(f"'{n}[{quoted(about(helps[n]))}]'" for n in subs) + " ;;",
           "        rest) case $line[1] in"]
    fish = ["# fish completion of quiver: made by scripts/pages.py."]
    for name in subs:
        args = []
        fish.append(f"complete -c quiver -n __fish_use_subcommand -f -a {name} -d '{quoted(about(helps[name]))}'")
        for short, long, value, what in options(helps[name]):
            args += [f"'{w}[{quoted(what)}]" + (":value:_files'" if value else "'") for w in (short, long) if w]
            fish.append(f"complete -c quiver -n '__fish_seen_subcommand_from {name}' -l {long[2:]}"
                        + (f" -s {short[1:]}" if short else "") + (" -r" if value else "") + f" -d '{quoted(what)}'")
        zsh.append(f"            {name}) _arguments {' '.join(args)} '*:file:_files' ;;")
    zsh += ["        esac ;;", "    esac", "}", '_quiver "$@"']
    return {"bash-completion/completions/quiver": bash, "zsh/vendor-completions/_quiver": "\n".join(zsh) + "\n",
            "fish/vendor_completions.d/quiver.fish": "\n".join(fish) + "\n"}


def about(text):
    return text.splitlines()[0]


def main():
    parser = argparse.ArgumentParser()
    for name in ("--binary", "--version", "--root"):
        parser.add_argument(name, required=True)
    args = parser.parse_args()

    def help_of(*words):
        # As `quiver`, whatever the file is called.
        return subprocess.run(["quiver", *words, "--help"], executable=args.binary, check=True, capture_output=True,
                              text=True).stdout

    top = help_of()
    listed = re.findall(r"^  (\w+) ", top.split("Commands:")[1].split("Options:")[0], re.M)
    helps = {"": top, **{name: help_of(name) for name in listed if name != "help"}}
    share = Path(args.root) / "usr/share"
    for path, text in pages(helps, args.version).items():
        file = share / "man" / f"{path}.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(text.encode(), mtime=0))
    for path, text in completions(helps).items():
        (share / path).parent.mkdir(parents=True, exist_ok=True)
        (share / path).write_text(text)


if __name__ == "__main__":
    main()
