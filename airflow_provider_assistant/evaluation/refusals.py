"""Detect refusals: answers that say that the assistant does not know."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_assistant.evaluation.phrases import includes

REFUSALS = (
    *("i don't know", "i do not know", "i'm not able to answer", "i am not able to answer", "unable to answer"),
    *("can't answer", "cannot answer", "can not answer", "can't help with", "cannot help with", "unable to help with"),
    *("i don't have information", "i don't have any information", "i don't have enough information"),
    *("i do not have information", "i do not have any information", "i do not have enough information"),
    *("i don't have that information", "i do not have that information", "there is no information"),
    *("i couldn't find", "i could not find", "i can't find", "i cannot find", "i was unable to find"),
    *("ich weiß nicht", "ich weiß es nicht", "weiß ich nicht", "keine informationen", "nicht beantworten"),
    *("je ne sais pas", "je ne dispose pas", "je n'ai pas d'information", "je n'ai pas trouvé"),
    *("je ne peux pas répondre", "je n'ai pas d'informations"),
    *("no lo sé", "no tengo información", "no dispongo de información", "no puedo responder", "no he encontrado"),
    *("não sei", "não tenho informação", "não tenho informações", "não posso responder", "não encontrei"),
    *("non lo so", "non ho informazioni", "non posso rispondere", "non ho trovato"),
    *("я не знаю", "не могу ответить", "нет информации", "не располагаю информацией", "не удалось найти"),
    *("わかりません", "分かりません", "お答えできません", "回答できません", "情報がありません", "見つかりませんでした"),
    *("我不知道", "无法回答", "無法回答", "没有相关信息", "沒有相關資訊", "未找到相关"),
    *("لا أعرف", "لا أعلم", "لا أستطيع الإجابة", "ليس لدي معلومات", "لا تتوفر لدي معلومات"),
    *("मुझे नहीं पता", "मुझे जानकारी नहीं है", "जानकारी उपलब्ध नहीं है", "उत्तर नहीं दे सकता"),
    *("ไม่ทราบ", "ไม่มีข้อมูล", "ไม่พบข้อมูล", "ไม่สามารถตอบ"),
)


def refuses(answer: str, phrases: Sequence[str] = REFUSALS) -> bool:
    """
    Return whether an answer is empty or contains a phrase of refusal.

    A phrase may occur anywhere: an answer that refuses and then guesses counts as a refusal. Other wordings are not
    detected. A user-defined scorer can call this function with other phrases.

    :param answer: Text of the answer.
    :param phrases: Phrases of which one is enough. Default: ``REFUSALS``, phrases in 12 languages.
    """
    return not answer.strip() or any(includes(answer, phrase) for phrase in phrases)
