//! What can go wrong for a user: the code, what a client may do about it, and a text in RU and EN.
use serde::{Deserialize, Serialize};

use crate::job::Locale;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    Unauthorized,
    Forbidden,
    LlmUnavailable,
    LlmRefused,
    CheckpointExpired,
    AlreadyResolved,
    NoPendingConfirmation,
    ConversationBusy,
    /// The `client_message_id` was used before, for something else.
    IdempotencyConflict,
    UserBusy,
    QueueFull,
    NotFound,
    FileTooLarge,
    FileType,
    FileUnreadable,
    LoopDetected,
    WorkerCrashed,
    Unavailable,
    /// Input that has no meaning: a wrong type, an unknown action.
    BadRequest,
    Internal,
    /// A tool's own failure; only in `tool_error`.
    ToolFailure,
    /// Arguments that don't fit the tool's schema; only in `tool_error`.
    InvalidArguments,
    /// Nobody knows whether the side effect happened; only in `tool_error`.
    OutcomeUnknown,
    /// The user said no; only in `tool_error`.
    Denied,
}

impl ErrorCode {
    pub const ALL: [Self; 24] = [
        Self::Unauthorized,
        Self::Forbidden,
        Self::LlmUnavailable,
        Self::LlmRefused,
        Self::CheckpointExpired,
        Self::AlreadyResolved,
        Self::NoPendingConfirmation,
        Self::ConversationBusy,
        Self::IdempotencyConflict,
        Self::UserBusy,
        Self::QueueFull,
        Self::NotFound,
        Self::FileTooLarge,
        Self::FileType,
        Self::FileUnreadable,
        Self::LoopDetected,
        Self::WorkerCrashed,
        Self::Unavailable,
        Self::BadRequest,
        Self::Internal,
        Self::ToolFailure,
        Self::InvalidArguments,
        Self::OutcomeUnknown,
        Self::Denied,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Forbidden => "FORBIDDEN",
            Self::LlmUnavailable => "LLM_UNAVAILABLE",
            Self::LlmRefused => "LLM_REFUSED",
            Self::CheckpointExpired => "CHECKPOINT_EXPIRED",
            Self::AlreadyResolved => "ALREADY_RESOLVED",
            Self::NoPendingConfirmation => "NO_PENDING_CONFIRMATION",
            Self::ConversationBusy => "CONVERSATION_BUSY",
            Self::IdempotencyConflict => "IDEMPOTENCY_CONFLICT",
            Self::UserBusy => "USER_BUSY",
            Self::QueueFull => "QUEUE_FULL",
            Self::NotFound => "NOT_FOUND",
            Self::FileTooLarge => "FILE_TOO_LARGE",
            Self::FileType => "FILE_TYPE",
            Self::FileUnreadable => "FILE_UNREADABLE",
            Self::LoopDetected => "LOOP_DETECTED",
            Self::WorkerCrashed => "WORKER_CRASHED",
            Self::Unavailable => "UNAVAILABLE",
            Self::BadRequest => "BAD_REQUEST",
            Self::Internal => "INTERNAL",
            Self::ToolFailure => "TOOL_FAILURE",
            Self::InvalidArguments => "INVALID_ARGUMENTS",
            Self::OutcomeUnknown => "OUTCOME_UNKNOWN",
            Self::Denied => "DENIED",
        }
    }

    /// Status on REST routes.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Unauthorized => 401,
            Self::Forbidden | Self::Denied => 403,
            Self::NotFound => 404,
            Self::ConversationBusy
            | Self::IdempotencyConflict
            | Self::AlreadyResolved
            | Self::NoPendingConfirmation => 409,
            Self::CheckpointExpired => 410,
            Self::FileTooLarge => 413,
            Self::FileType | Self::FileUnreadable => 415,
            Self::BadRequest | Self::InvalidArguments => 400,
            Self::UserBusy => 429,
            Self::QueueFull | Self::Unavailable | Self::LlmUnavailable => 503,
            Self::LlmRefused
            | Self::LoopDetected
            | Self::WorkerCrashed
            | Self::Internal
            | Self::ToolFailure
            | Self::OutcomeUnknown => 500,
        }
    }

    /// Whether the same request may succeed later without a change.
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::LlmUnavailable
            | Self::ConversationBusy
            | Self::UserBusy
            | Self::QueueFull
            | Self::WorkerCrashed
            | Self::Unavailable
            | Self::Internal => true,
            Self::Unauthorized
            | Self::Forbidden
            | Self::LlmRefused
            | Self::CheckpointExpired
            | Self::AlreadyResolved
            | Self::NoPendingConfirmation
            | Self::IdempotencyConflict
            | Self::NotFound
            | Self::FileTooLarge
            | Self::FileType
            | Self::FileUnreadable
            | Self::LoopDetected
            | Self::BadRequest
            | Self::ToolFailure
            | Self::InvalidArguments
            | Self::OutcomeUnknown
            | Self::Denied => false,
        }
    }

    /// One helpful sentence for the user. Names no provider, host or statement.
    pub const fn text(self, locale: Locale) -> &'static str {
        match locale {
            Locale::En => self.text_en(),
            Locale::Ru => self.text_ru(),
        }
    }

    const fn text_en(self) -> &'static str {
        match self {
            Self::Unauthorized => "Your session has expired. Sign in again.",
            Self::Forbidden => "You have no permission for this operation.",
            Self::LlmUnavailable => "The language model can't be reached. Try again in a moment.",
            Self::LlmRefused => "The language model refused to answer this.",
            Self::CheckpointExpired => {
                "This confirmation has expired. Ask for the operation again."
            }
            Self::AlreadyResolved => "This confirmation was already answered.",
            Self::NoPendingConfirmation => "Nothing here waits for a confirmation.",
            Self::ConversationBusy => "An answer is still being written in this conversation.",
            Self::IdempotencyConflict => "This message id was already used for another message.",
            Self::UserBusy => "You have too many answers running. Wait for one to end.",
            Self::QueueFull => "The service is full. Try again in a moment.",
            Self::NotFound => "Not found.",
            Self::FileTooLarge => "A file is larger than 10 MB.",
            Self::FileType => {
                "This kind of file can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG or JPEG."
            }
            Self::FileUnreadable => "A file could not be read.",
            Self::LoopDetected => "The assistant went round in circles and was stopped.",
            Self::WorkerCrashed => "The answer failed several times and was given up.",
            Self::Unavailable => "The service can't be reached. Try again in a moment.",
            Self::BadRequest => {
                "The request could not be understood: it needs a text or up to 5 files, and a conversation id of at most 128 characters."
            }
            Self::Internal => "Something went wrong. Try again.",
            Self::ToolFailure => "The operation failed.",
            Self::InvalidArguments => "The operation was called with wrong arguments.",
            Self::OutcomeUnknown => {
                "Nobody knows whether this operation happened. Check before you repeat it."
            }
            Self::Denied => "The user did not allow this operation.",
        }
    }

    const fn text_ru(self) -> &'static str {
        match self {
            Self::Unauthorized => "Сеанс истёк. Войдите снова.",
            Self::Forbidden => "У вас нет прав на эту операцию.",
            Self::LlmUnavailable => "Языковая модель недоступна. Попробуйте чуть позже.",
            Self::LlmRefused => "Языковая модель отказалась отвечать на это.",
            Self::CheckpointExpired => "Срок подтверждения истёк. Запросите операцию снова.",
            Self::AlreadyResolved => "На это подтверждение уже ответили.",
            Self::NoPendingConfirmation => "Здесь ничего не ждёт подтверждения.",
            Self::ConversationBusy => "В этом диалоге ещё пишется ответ.",
            Self::IdempotencyConflict => {
                "Этот идентификатор сообщения уже использован для другого сообщения."
            }
            Self::UserBusy => "У вас слишком много одновременных ответов. Дождитесь одного из них.",
            Self::QueueFull => "Сервис перегружен. Попробуйте чуть позже.",
            Self::NotFound => "Не найдено.",
            Self::FileTooLarge => "Файл больше 10 МБ.",
            Self::FileType => {
                "Такие файлы не читаются. Подойдут PDF, XLSX, XLSM, JSON, CSV, TSV, PNG или JPEG."
            }
            Self::FileUnreadable => "Файл не удалось прочитать.",
            Self::LoopDetected => "Ассистент зациклился и был остановлен.",
            Self::WorkerCrashed => "Ответ несколько раз сорвался и был прекращён.",
            Self::Unavailable => "Сервис недоступен. Попробуйте чуть позже.",
            Self::BadRequest => {
                "Запрос не удалось понять: нужен текст или не больше 5 файлов и идентификатор диалога не длиннее 128 символов."
            }
            Self::Internal => "Что-то пошло не так. Попробуйте ещё раз.",
            Self::ToolFailure => "Операция не удалась.",
            Self::InvalidArguments => "Операция вызвана с неверными параметрами.",
            Self::OutcomeUnknown => {
                "Неизвестно, выполнилась ли операция. Проверьте, прежде чем повторять."
            }
            Self::Denied => "Пользователь не разрешил эту операцию.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_on_the_wire_is_the_name_in_code() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn every_code_speaks_both_languages() {
        for code in ErrorCode::ALL {
            assert!(code.text(Locale::En).is_ascii(), "{code:?}");
            assert!(!code.text(Locale::Ru).is_ascii(), "{code:?}");
        }
    }
}
