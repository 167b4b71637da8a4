"""Find answers that refuse: they say that the assistant does not know, or will not help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from airflow_provider_assistant.evaluation.text import folded, has_phrase

# A refusal comes early.
_OPENING = 300
_QUOTED = re.compile(r"\"[^\"]{1,200}\"")
_SENTENCES = re.compile(r"(?<=[?\uff1f])|[.!](?=\s|$)|[\u3002\uff01\u0964]|\n\s*\n|, (?=(?:but|aber|mais|pero)\b)")
_PARTS = {
    "documents": r"(documents?|passages?|context|sources?|articles?|knowledge|knowledge base|documentation|excerpts?"
    r"|materials?|manual|files?|search results?|database|help (cent(re|er)|pages?))",
    "information": r"(information|info|details?|answers?|data|knowledge|context|documentation|documents?|articles?"
    r"|sources?|results?|mention|indication|reference|access|opinions?|ability|capability|permission|expertise)",
    "cannot": r"(can ?not|can't|couldn't|could not|won't|will not|wouldn't|would not|unable to|not able to"
    r"|n't (be )?able to|not in a position to)",
}
# One pattern a line; a line that begins with a space continues the one before. The subject is the assistant: what a
# customer cannot do, or what a shop does not offer, is an answer. The last lines are one for each further language.
_REFUSALS = r"""
(i|we) (\w+ )?(don't|do not|didn't|did not) (\w+ )?know\b(?! (any|your|you\b|wh\w+ \w+ you (have|mean|use|own)))
^(\w+, )?(i have )?no (idea|clue)|i know nothing
i('m| am) (\w+ )?not (\w+ )?(sure|certain)\b(?! (what you|which|whether you|if you|why))|i('m| am) not familiar
(i|we) (\w+ )?(have|had|see|find|found) (no|insufficient|not enough) (\w+ ){0,6}?{information}\b
(i|we) (\w+ )?(don't|do not|didn't|did not|haven't|have not|couldn't|could not|can't|cannot|(am|was) unable to
  |wasn't able to) (\w+ )?(have|possess|find|found|locate|see|get
  |enough) (?!access to your)(\w+ ){0,5}?{information}\b(?! (desk|stand))
(couldn't|could not|can't|cannot|unable to|n't able to|not able to) (find|locate) (\w+ )?(that|this|it|any\w*
  |an? (\w+ )?answer)\b
{documents}( \w+){0,5}? (do(es)? not|don't|doesn't|did(n't| not)) (\w+ )?(mention|contain|include|say|state|provide
  |specify|cover|address|answer|describe|give|have(?! to\b)|discuss|indicate|explain|list|tell)
(none|nothing|nowhere) (\w+ )?(of|in|from) (my|the|our|these|this)( \w+){0,3}? {documents}
(is|there's|are|contains?|provides?|found) no (\w+ ){0,2}{information}( \w+)?( (about|on|regarding|for|in)\b|$)
no (\w+ )?(information|results?|answers?|matches|documents) (was|were|could be|is|are) (\w+ )?(found|available
  |given)
(is|was|are|cannot be)(n't| not)? (\w+ )?(available to me|(found|covered|mentioned|contained
  |part of)\b.*{documents})
question (can ?not|can't) be answered|not something i can|is not in the documents
based on [^;:]{0,70}?(cannot|can't|unable|not possible)|(not possible|impossible) (for me )?to (answer|determine
  |say)
(i|we|assistant|bot)('m|'re| am| are|'ll)? ([a-z]+ ){0,2}?{cannot} (\w+ )?(help|assist|answer|comment|disclose
  |reveal|discuss|advise|comply|tell|say|respond|speculate|predict)\b
i('m| am|'ll)? ([a-z]+ )?{cannot} (\w+ )?(fulfil|provide|give|share|offer|engage|generate|create|write|judge
  |recommend(?!.* enough)|diagnose|prescribe|browse|support|do|take|verify|confirm|pretend|ignore|access|speak)\b
i('m| am) (\w+ )?(not |un)(\w+ )?(able|allowed|permitted|authori[sz]ed|qualified|equipped|capable|programmed
  |designed|trained|comfortable|going to|in a position|willing|a (doctor|lawyer))
i (must|have to|need to|will|would|should)? ?(\w+ )?(decline|refuse)|i('d| would)( \w+)? (rather|prefer) not
(i|we) (don't|do not) (comment|discuss|speculate|answer questions)|i (don't|do not) (engage|share|give|condone)
(not |never )(\w+ )?(ethical|appropriate|acceptable)( \w+){0,5}? (to|for me|for us)\b
(i|we|assistant|bot)( can|'m|am| are)?( \w+){0,2}? only( \w+){0,2}? (answer|help|assist|provide|discuss|advise|with
  |able|allowed|here)
i('m| am) (limited|restricted to|(designed|here|built|trained|made) [^;:]{0,50}?\b(only|solely|exclusively))
(outside|beyond|out of|not within|not in)( of)?( my| the| our)?( area of)? (scope|expertise|knowledge|remit
  |capabilit\w+|abilities|competence|domain|field|area|what (i|this assistant))
(my|this assistant's) ([a-z]+ )?(knowledge|training|expertise|job|role|purpose|sources
  |documents)( \w+){0,3}? (does not|doesn't|do not|don't|(is|are) (limited|restricted|only))
as an? (\w+ ){0,2}(ai|assistant|language model|bot|chatbot)\b[^;:]{0,70}?\bi( \w+)? (do not|don't|have no|cannot
  |can't)
(against|violates?) (my|our) (\w+ )?(guidelines|polic|programming|principles|rules)
keine ahnung|(ich (\w+ )?(weiss|kann|darf|finde|habe)|(weiss|kann|darf|finde|habe) ich)\b.*\b(nichts?|kein\w*)\b
aucune idée|je ne (peux|sais|possède|trouve|donne|suis) \w*(pas|qu)\b(?! du )|je n'ai (\w+ )?(pas|aucune?)\b
ni idea|no (lo sé|sé|puedo|tengo|poseo|cuento|encontré|encuentro|dispongo)\b|prefiero no|me faltan datos
não (sei|posso|tenho|possuo|encontrei|disponho|faço ideia)\b|prefiro não|devo recusar
nessuna idea|non (lo so|so|posso|ho|possiedo|trovo)\b|preferisco non|devo declinare
geen idee|(ik (\w+ )?(weet|kan|mag|heb)|(weet|kan|mag|heb) ik)\b.*\b(niets?|geen)\b
"""
_LEAD = re.compile(
    r"\b(?:dear|sorry|apolog|afraid|regret|unfortunately|thank|hello|hi\b|hmm|well\b|question|understand|appreciate"
    r"|i('ve| have)? (looked|searched|checked|reviewed)|as an? |i('m| am) (just|only|an)|happy to help|i wish|no\W*$"
    r"|leider|tut mir|entschuldig|danke|vielen dank|désolé|merci|malheureusement|lo siento|gracias"
    r"|desculp|spiacente|helaas|bedankt|aber damit|goede vraag)"
)
_UNLESS = re.compile(
    r"\b(?:if|when|whenever|unless|in case|select|choose|click|tap|press|option|error|message|means|says|people"
    r"|customers|wenn|falls|si\b|quand|cuando|se\b|quando|als\b)"
)


def refuses(answer: str, phrases: Sequence[str] = ()) -> bool:
    """
    Return whether an answer is empty, says that the assistant does not know, or will not help.

    The patterns are looked for in the first sentence, and in the next ones while only an apology or thanks precede.
    Quotations, questions and conditions are not refusals.

    :param phrases: Further sentences or parts of sentences, anywhere in the answer. Default: none.
    """
    if not answer.strip() or any(has_phrase(answer, phrase) for phrase in phrases):
        return True
    for sentence in _opening(answer):
        found = _refusals().search(sentence)
        if found and not _UNLESS.search(sentence, 0, found.start()):
            return True
        if not _LEAD.search(sentence):
            return False
    return False


def _opening(answer: str) -> list[str]:
    """Return the first sentences of an answer, without questions and quotations."""
    beginning = answer.strip()[:_OPENING].replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"')
    plain = re.sub("[*_`#>]", "", folded(beginning))
    without_quotations = _QUOTED.sub(" ", plain)
    if re.search(r"\w", without_quotations):
        plain = without_quotations
    sentences = [" ".join(re.sub(r"^\W+", "", part).split()) for part in _SENTENCES.split(plain) if part]
    return [sentence for sentence in sentences if sentence and not sentence.endswith(("?", "\uff1f"))]


@cache
def _refusals() -> re.Pattern[str]:
    text = _REFUSALS.strip().replace("\n  ", "")
    for name, part in _PARTS.items():
        text = text.replace(f"{{{name}}}", part)
    return re.compile(rf"\b(?:{'|'.join(text.splitlines())})")
